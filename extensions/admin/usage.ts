import type { z } from 'zod';
import type { Clock } from '../../src/component/component.ts';
import { shownHistory, UsageRangeError, usageRange } from '../../src/control/usage-range.ts';
import type { Store } from '../../src/store/store.ts';
import { ApiError } from './errors.ts';
import type { QUERIES } from './schemas.ts';

type Asked = z.output<typeof QUERIES.usage>;

/** The usage of whole periods, with the resolved range. */
export function usageHistory(store: Store, clock: Clock, asked: Asked): Promise<object> {
  return shownHistory(store, rangeOf(asked, clock), asked.project);
}

function rangeOf(asked: Asked, clock: Clock): ReturnType<typeof usageRange> {
  try {
    return usageRange(asked, clock.now());
  } catch (error) {
    if (!(error instanceof UsageRangeError)) throw error;
    throw new ApiError('invalid_request', `The query is not valid: ${error.message}.`);
  }
}
