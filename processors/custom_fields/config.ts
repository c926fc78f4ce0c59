import { z } from 'zod';

/** The rules are part of the service's contract: it has no fields. */
export const config = z.strictObject({});
