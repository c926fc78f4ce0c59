import t from 'tap';
import { postgresServer } from '../helper/postgres-server.ts';
import { holdWhateverArrives } from './bad-inputs.ts';
import { onPostgres } from './on-postgres.ts';

t.setTimeout(300_000);

const server = await postgresServer(t);

t.test('answers every hostile request with Postgres as the store', async (t) => {
  await holdWhateverArrives(t, {
    daemon: await onPostgres(server),
    exporter: 'postgres',
    isWanted: ({ expect }) => (expect.effects?.acceptedDelta ?? 0) > 0,
  });
});
