import type { Key } from '../../api/types.ts';

type Progress = {
  readonly isDeployed: boolean;
  readonly replacement: Pick<Key, 'last_used_at'> | undefined;
  /** The last use that the replacement had before the rotation; null if it had none, or is in use. */
  readonly usedBefore: string | null;
};

/** The step of a rotation, 1 to 4. The old key may only be revoked once the replacement was used. */
export function stepOf({ isDeployed, replacement, usedBefore }: Progress): 1 | 2 | 3 | 4 {
  if (replacement === undefined) return 1;
  if (!isDeployed) return 2;
  const { last_used_at } = replacement;
  return last_used_at === null || last_used_at === usedBefore ? 3 : 4;
}

/** Milliseconds after its last use that a key counts as in use; a last use is saved once a minute. */
const IN_USE_MS = 5 * 60_000;

export type KeyState = 'revoked' | 'in use' | 'idle' | 'never used';

export function stateOf(key: Pick<Key, 'last_used_at' | 'revoked_at'>, now: number): KeyState {
  if (key.revoked_at !== null) return 'revoked';
  if (key.last_used_at === null) return 'never used';
  return now - Date.parse(key.last_used_at) <= IN_USE_MS ? 'in use' : 'idle';
}
