import { z } from 'zod';
import { storeRef } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  store: storeRef().default('sqlite').describe('The `sqlite` extension to write to.'),
});

export type SqliteExporterConfig = z.output<typeof config>;
