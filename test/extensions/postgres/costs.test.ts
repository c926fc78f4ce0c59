import t from 'tap';
import { postgresCosts } from '../../../extensions/postgres/traces/costs.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { anObservation, testProject } from '../../helper/batches.ts';
import { createPricing } from '../../helper/flat-pricing.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);

t.test('a step that fails ends behind the traces that it has saved', async (t) => {
  const { traces, database } = await traceDatabase(t, await server.database());
  const startTime = { ms: Date.UTC(2026, 0, 15), ns: 0 };
  const call = { ...{ model: 'm', usage: { input_tokens: 1, output_tokens: 1 } }, details: null };
  const ids = ['a', 'b', 'c'];
  await traces.write(
    batchWith(ids.map((traceId) => anObservation({ ...call, startTime, traceId }))),
  );
  let left = 1;
  const failing: typeof database = {
    ...database,
    async transaction(work) {
      if (left-- > 0) return database.transaction(work);
      throw new RetryableError('storage_failed', 'Postgres cannot be used (40P01)');
    },
  };
  const costs = postgresCosts(failing, { pricing: createPricing({ m: 2 }) });
  const range = { projectId: testProject, from: startTime.ms, to: startTime.ms + 1 };
  const first = await costs.priceAgain(range, null, false);
  t.match(first, { observations: 1, changed: 1, costAfter: 4 });
  await t.rejects(costs.priceAgain(range, first?.next ?? null, false), { code: 'storage_failed' });
  left = 9;
  const rest = await costs.priceAgain(range, first?.next ?? null, false);
  t.match(rest, { observations: 2, changed: 2, costAfter: 8, next: null });
});
