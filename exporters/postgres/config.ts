import { z } from 'zod';
import { storeRef } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  store: storeRef().default('postgres').describe('The `postgres` extension to write to.'),
});

export type PostgresExporterConfig = z.output<typeof config>;
