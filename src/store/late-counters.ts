import type { UsageCounters } from '../tenancy/contract.ts';

/** An offer exists before its extension has started; it may be used from then on. */
export function lateCounters(counters: () => UsageCounters): UsageCounters {
  return {
    peek: (...args) => counters().peek(...args),
    reserve: (...args) => counters().reserve(...args),
    settle: (...args) => counters().settle(...args),
    read: (...args) => counters().read(...args),
  };
}
