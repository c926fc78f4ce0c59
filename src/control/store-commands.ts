import { recomputeCosts } from './cost-recompute.ts';
import { ERASURE_COMMANDS } from './erasures.ts';
import { EXPORT_COMMANDS } from './exports.ts';
import { KEY_COMMANDS } from './keys.ts';
import { ORGANIZATION_COMMANDS } from './organization.ts';
import { PROJECT_COMMANDS } from './projects.ts';
import { showSearch } from './search.ts';
import type { StoreCommand } from './store-work.ts';
import { TRACE_COMMANDS } from './traces.ts';
import { USAGE_COMMANDS } from './usage.ts';

/** The commands about a store, for the control socket and for a store without a running daemon. */
export const STORE_COMMANDS = {
  ...ORGANIZATION_COMMANDS,
  ...PROJECT_COMMANDS,
  ...KEY_COMMANDS,
  ...USAGE_COMMANDS,
  ...TRACE_COMMANDS,
  ...EXPORT_COMMANDS,
  ...ERASURE_COMMANDS,
  'cost.recompute': recomputeCosts,
  'search.status': showSearch,
} as const satisfies Record<string, StoreCommand>;
export type StoreCommandName = keyof typeof STORE_COMMANDS;
