import type { z } from 'zod';
import type { Clock } from '../../src/component/component.ts';
import { shownUsageRow } from '../../src/control/public-form.ts';
import { UsageRangeError, usageRange } from '../../src/control/usage-range.ts';
import type { Store } from '../../src/store/store.ts';
import { ApiError } from './errors.ts';
import type { QUERIES } from './schemas.ts';

type Asked = z.output<typeof QUERIES.usage>;

/** The usage of whole periods, with the range that was meant. */
export async function usageHistory(store: Store, clock: Clock, asked: Asked): Promise<object> {
  const { from, to, by } = rangeOf(asked, clock);
  const { project } = asked;
  const filter = project === undefined ? {} : { projectId: project };
  const rows = await store.usage.history({ from, to, by, ...filter });
  return {
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    by,
    usage: rows.map(shownUsageRow),
  };
}

function rangeOf(asked: Asked, clock: Clock): ReturnType<typeof usageRange> {
  try {
    return usageRange(asked, clock.now());
  } catch (error) {
    if (!(error instanceof UsageRangeError)) throw error;
    throw new ApiError('invalid_request', `The query is not answered: ${error.message}.`);
  }
}
