import type { Permission } from './batch.ts';

/** Bit numbers in stored rows: append to this list, never reorder it. */
const PERMISSIONS: readonly Permission[] = ['ingest:write', 'traces:read'];

export function permissionBits(permissions: readonly Permission[]): number {
  let bits = 0;
  for (const permission of permissions) bits |= 1 << PERMISSIONS.indexOf(permission);
  return bits;
}

export function permissionList(bits: number): Permission[] {
  return PERMISSIONS.filter((_, i) => (bits & (1 << i)) !== 0);
}
