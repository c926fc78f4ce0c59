import { z } from 'zod';

/** The mapping is part of the service's contract: it has no fields. */
export const config = z.strictObject({});
