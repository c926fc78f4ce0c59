import { z } from 'zod';
import { ref } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z.strictObject({
  store: ref(STORE).default('postgres').describe('The `postgres` extension to write to.'),
});

export type PostgresExporterConfig = z.output<typeof config>;
