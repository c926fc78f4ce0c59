import { z } from 'zod';

/** A time in a command or a request of the admin API. A date is its start in UTC. */
export const moment = z.union([z.iso.date(), z.iso.datetime({ offset: true })], {
  error: 'must be an ISO 8601 date, or date and time with offset, such as 2027-01-31T08:00:00Z',
});
