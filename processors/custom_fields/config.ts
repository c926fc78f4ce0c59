import { z } from 'zod';

/** The rules are the service's contract: there is nothing to choose. */
export const config = z.strictObject({});
