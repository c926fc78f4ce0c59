import { z } from 'zod';

/** What becomes of which attribute is the service's contract: there is nothing to choose. */
export const config = z.strictObject({});
