import t, { type Test } from 'tap';
import { postgresCosts } from '../../../extensions/postgres/traces/costs.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { anObservation, testProject } from '../../helper/batches.ts';
import { createPricing } from '../../helper/flat-pricing.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);

/** A database with three traces of one call each, and their range of time. */
async function withCalls(t: Test) {
  const { traces, database } = await traceDatabase(t, await server.database());
  const startTime = { ms: Date.UTC(2026, 0, 15), ns: 0 };
  const call = { ...{ model: 'm', usage: { input_tokens: 1, output_tokens: 1 } }, details: null };
  const ids = ['a', 'b', 'c'];
  await traces.write(
    batchWith(ids.map((traceId) => anObservation({ ...call, startTime, traceId }))),
  );
  return { database, range: { projectId: testProject, from: startTime.ms, to: startTime.ms + 1 } };
}

t.test('a step that fails ends behind the traces that it has saved', async (t) => {
  const { database, range } = await withCalls(t);
  let left = 1;
  const failing: typeof database = {
    ...database,
    async transaction(work) {
      if (left-- > 0) return database.transaction(work);
      throw new RetryableError('storage_failed', 'Postgres cannot be used (40P01)');
    },
  };
  const costs = postgresCosts(failing, { pricing: createPricing({ m: 2 }) });
  const first = await costs.priceAgain(range, null, false);
  t.match(first, { observations: 1, changed: 1, costAfter: 4 });
  await t.rejects(costs.priceAgain(range, first?.next ?? null, false), { code: 'storage_failed' });
  left = 9;
  const rest = await costs.priceAgain(range, first?.next ?? null, false);
  t.match(rest, { observations: 2, changed: 2, costAfter: 8, next: null });
});

t.test('an observation is priced once, and once more under the lock if it changes', async (t) => {
  const { database, range } = await withCalls(t);
  const flat = createPricing({ m: 2 });
  let calls = 0;
  const pricing: typeof flat = (priced) => {
    calls += 1;
    return flat(priced);
  };
  const costs = postgresCosts(database, { pricing });
  const sums = { observations: 3, changed: 3, costAfter: 12, next: null };
  t.match(await costs.priceAgain(range, null, true), sums);
  t.equal(calls, 3, 'a dry run');
  t.match(await costs.priceAgain(range, null, false), sums);
  t.equal(calls, 9, 'changed ones');
  t.match(await costs.priceAgain(range, null, false), { ...sums, changed: 0, costAfter: 0 });
  t.equal(calls, 12, 'unchanged ones');
});
