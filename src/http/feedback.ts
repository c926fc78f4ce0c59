import type { Tenant } from '../model/batch.ts';
import type { FeedbackPart } from '../model/runs/assemble.ts';
import type { Store } from '../store/store.ts';

/**
 * Stores feedback that arrives with runs, and resolves with the number of those that cannot be stored. The reading routes have it,
 * because they know the rules of scores.
 */
export type FeedbackIntake = (
  reader: { readonly tenant: Tenant; readonly store: Store; readonly now: number },
  parts: readonly FeedbackPart[],
) => Promise<number>;
