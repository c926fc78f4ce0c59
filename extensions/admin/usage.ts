import type { z } from 'zod';
import type { Clock } from '../../src/component/component.ts';
import type { UsageRange } from '../../src/control/usage-range.ts';
import { shownHistory, UsageRangeError, usageRange } from '../../src/control/usage-range.ts';
import type { Store } from '../../src/store/store.ts';
import { ApiError } from './errors.ts';
import type { QUERIES } from './schemas.ts';

type Asked = z.output<typeof QUERIES.usage>;
type Periods = z.output<typeof QUERIES.periods>;

/** The usage of whole periods, with the resolved range. */
export function usageHistory(store: Store, clock: Clock, asked: Asked): Promise<object> {
  return shownHistory(store, usageRangeOf(asked, clock), asked.project);
}

/** The whole periods that a query asks for. Throws an `ApiError`. */
export function usageRangeOf(asked: Periods, clock: Clock): UsageRange {
  try {
    return usageRange(asked, clock.now());
  } catch (error) {
    if (!(error instanceof UsageRangeError)) throw error;
    throw new ApiError('invalid_request', `The query is not valid: ${error.message}.`);
  }
}
