import type { Key } from '../../api/types.ts';

type Progress = {
  readonly isDeployed: boolean;
  readonly replacement: Pick<Key, 'last_used_at'> | undefined;
};

/** The step of a rotation, 1 to 4. The old key may only be revoked once the replacement was used. */
export function stepOf({ isDeployed, replacement }: Progress): 1 | 2 | 3 | 4 {
  if (replacement === undefined) return 1;
  if (!isDeployed) return 2;
  return replacement.last_used_at === null ? 3 : 4;
}

/** Milliseconds after its last use that a key counts as in use; a last use is saved once a minute. */
const IN_USE_MS = 5 * 60_000;

export type KeyState = 'revoked' | 'in use' | 'idle' | 'never used';

export function stateOf(key: Pick<Key, 'last_used_at' | 'revoked_at'>, now: number): KeyState {
  if (key.revoked_at !== null) return 'revoked';
  if (key.last_used_at === null) return 'never used';
  return now - Date.parse(key.last_used_at) <= IN_USE_MS ? 'in use' : 'idle';
}
