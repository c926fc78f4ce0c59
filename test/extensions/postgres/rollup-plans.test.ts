import t from 'tap';
import type { PostgresTransaction } from '../../../extensions/postgres/connection/pool.ts';
import type { Question } from '../../../extensions/postgres/connection/statement.ts';
import { foldStep, removeRollupsStep } from '../../../extensions/postgres/traces/rollup-folding.ts';
import { readFacet, readStats } from '../../../extensions/postgres/traces/rollup-reading.ts';
import { DAY, HOUR } from '../../../src/store/rollups/fold.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;

t.test('no statement of rollups scans a table', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  await traces.write(batchWith([anObservation({ userId: 'u' })]));
  const plans: [sql: string, plan: string][] = [];
  await postgres.transaction(async (client) => {
    // The planner then scans a table only if no index serves.
    await client.query('SET LOCAL enable_seqscan = off');
    async function query(sql: string, values: readonly unknown[] = []) {
      if (!sql.startsWith('SET')) {
        const { rows } = await client.query(`EXPLAIN ${sql}`, values);
        plans.push([sql, rows.map((row) => String(row['QUERY PLAN'])).join('\n')]);
        return client.query(sql, values);
      }
      return { rows: [] };
    }
    const explaining = {
      query,
      async together(questions: readonly Question<unknown>[]) {
        const answers: unknown[] = [];
        for (const { statement, answer } of questions)
          answers.push(answer(await query(...statement)));
        return answers;
      },
      async commit(statements: readonly (readonly [string, readonly unknown[]])[]) {
        for (const statement of statements) await query(...statement);
        return [];
      },
    } as PostgresTransaction;
    const database = {
      query,
      transaction: <T>(work: (client: PostgresTransaction) => Promise<T>) => work(explaining),
    };
    await foldStep(database, P);
    const hours = { from: 490_000, to: 500_000 };
    const asked = { field: 'user', hours, isGrouped: true } as const;
    await readFacet(database, P, { field: 'user', hours, prefix: 'u' });
    for (const step of [HOUR, DAY]) {
      await readStats(database, P, { ...asked, values: null, step });
      await readStats(database, P, { ...asked, values: ['u', 'v'], step });
    }
  });
  t.ok(plans.length >= 15, `${plans.length} statements`);
  for (const [sql, plan] of plans) t.notMatch(plan, 'Seq Scan', `${sql}\n${plan}`);
});

t.test('a fold looks up its rows one by one in a table of any size', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  const all = Array.from({ length: 400 }, (_, i) =>
    anObservation({ traceId: `t${i}`, id: `o${i}`, userId: `u${i}` }),
  );
  await traces.write(batchWith(all));
  while (await foldStep(postgres, P));
  await postgres.query('ANALYZE rollups');
  await traces.write(batchWith(all.map((one) => ({ ...one, status: 'error' }))));
  const plans: string[] = [];
  const explained = (client: PostgresTransaction): PostgresTransaction => ({
    ...client,
    async query(sql, values) {
      if (sql.includes('LATERAL') && sql.includes('latencies')) {
        const { rows } = await client.query(`EXPLAIN ${sql}`, values);
        plans.push(rows.map((row) => String(row['QUERY PLAN'])).join('\n'));
      }
      return client.query(sql, values);
    },
  });
  await foldStep(
    {
      ...postgres,
      transaction: (work) => postgres.transaction((client) => work(explained(client))),
    },
    P,
  );
  t.ok(plans.length > 0);
  for (const plan of plans) {
    t.match(plan, /Nested Loop/);
    t.notMatch(plan, /Seq Scan on rollups|Hash Join/);
  }
});

t.test('the rows of a fold in flight are removed with their project', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  await traces.write(batchWith([anObservation({ userId: 'u' })]));
  const hasRead = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const slow = {
    query: postgres.query.bind(postgres),
    transaction: <T>(work: (client: PostgresTransaction) => Promise<T>) =>
      postgres.transaction((client) =>
        work({
          query: client.query.bind(client),
          together: client.together.bind(client),
          async commit(statements) {
            hasRead.resolve();
            await mayCommit.promise;
            return client.commit(statements);
          },
        }),
      ),
  };
  const folding = foldStep(slow, P);
  await hasRead.promise;
  let isRemoved = false;
  const removing = removeRollupsStep(postgres, P).then(() => {
    isRemoved = true;
  });
  // The removal has taken the deltas away and waits for the fold.
  await until(async () => {
    const { rows } = await postgres.query(`SELECT 1 FROM pg_locks WHERE locktype = 'advisory'
      AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`);
    return rows.length > 0 || isRemoved;
  });
  mayCommit.resolve();
  await Promise.all([folding, removing]);
  const { rows } = await postgres.query('SELECT 1 FROM rollups WHERE project = $1', [P]);
  t.equal(rows.length, 0);
});
