import { z } from 'zod';
import { ref } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z.strictObject({
  store: ref(STORE).default('sqlite').describe('The `sqlite` extension to write to.'),
});

export type SqliteExporterConfig = z.output<typeof config>;
