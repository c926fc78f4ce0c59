import { inspect } from 'node:util';
import t from 'tap';
import { dueProjects, expireTracesStep } from '../../../extensions/postgres/batches/purge.ts';
import type { Result } from '../../../extensions/postgres/connection/statement.ts';
import { erasedItems } from '../../../extensions/postgres/erasing/cleaning.ts';
import { expireRejectionsStep } from '../../../extensions/postgres/housekeeping.ts';
import {
  expireDeadLettersStep,
  removeEntries,
} from '../../../extensions/postgres/queue/maintenance.ts';
import { postgresTextDialect } from '../../../extensions/postgres/search/dialect.ts';
import { searchTables } from '../../../extensions/postgres/search/tables.ts';
import { postgresDialect } from '../../../extensions/postgres/traces/dialect.ts';
import { load } from '../../../extensions/postgres/traces/loading.ts';
import { lockTracesByKey, numberTraces } from '../../../extensions/postgres/traces/locking.ts';
import { findLines, findTree } from '../../../extensions/postgres/traces/packed-reading.ts';
import { ensureTracePartitions } from '../../../extensions/postgres/traces/partitions.ts';
import {
  findAnywhere,
  findBatches,
  findInTrace,
  findObservations,
  findObservationsOf,
  findRoot,
  findStamps,
  findTrace,
  findTraces,
  findTracesByNumber,
} from '../../../extensions/postgres/traces/reading.ts';
import { findScores, removeLoneScores } from '../../../extensions/postgres/traces/scores.ts';
import { emptySnapshot, ReadSet } from '../../../extensions/postgres/traces/snapshot.ts';
import { findGroups, sumGroup } from '../../../extensions/postgres/traces/trace-groups.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import { FIRST_PLACE } from '../../../src/store/rows/place.ts';
import { NEWEST_PLACE } from '../../../src/store/search/indexer.ts';
import {
  everyGroupLook,
  everyLook,
  everyRankStatement,
  everyStatement,
} from '../../contract/plans.ts';
import { anObservation } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { aQuery } from '../../helper/query.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const JOINS_MANY = /(?:Hash|Merge) (?:Semi )?Join/;

t.test('no statement of the reading side scans a table', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  await ensureTracePartitions(postgres, Date.now(), 1);
  const numbers = Array.from({ length: 9 }, (_, i) => i);
  const about = (i: number) => ({ traceId: `t${i}`, id: `o${i}`, sessionId: 's', userId: 'u' });
  await traces.write(batchWith(numbers.map((i) => anObservation(about(i)))));
  const plans: [sql: string, plan: string][] = [];
  await postgres.transaction(async (client) => {
    // The planner then scans a table only if no index serves.
    await client.query('SET LOCAL enable_seqscan = off');
    // Of 9,500 statements 1,100 differ.
    const results = new Map<string, Promise<Result>>();
    const explained = async (sql: string, values: readonly unknown[]): Promise<Result> => {
      const { rows } = await client.query(`EXPLAIN ${sql}`, values);
      plans.push([sql, rows.map((row) => String(row['QUERY PLAN'])).join('\n')]);
      return client.query(sql, values);
    };
    const explaining = {
      query(sql: string, values: readonly unknown[] = []) {
        const same = sql + inspect(values, { depth: null, maxArrayLength: null });
        const result = results.get(same) ?? explained(sql, values);
        results.set(same, result);
        return result;
      },
    };
    const scope = ['proj_test', 0] as const;
    for (const dialect of [postgresDialect, postgresTextDialect]) {
      for (const look of everyLook()) await findTraces(explaining, dialect, scope, look);
      for (const { sql, values } of everyStatement(dialect, 't.n')) {
        await explaining.query(sql, values);
      }
      for (const { sql, values } of everyRankStatement(dialect)) {
        await explaining.query(sql, values);
      }
    }
    await findTracesByNumber(explaining, scope, [1, 2]);
    for (const look of everyGroupLook()) {
      await findGroups(explaining, postgresTextDialect, { project: 'proj_test', since: 0 }, look);
      await sumGroup(
        explaining,
        postgresTextDialect,
        { project: 'proj_test', since: 0 },
        's',
        look,
      );
    }
    await findRoot(explaining, scope, 't1');
    await findScores(explaining, 'proj_test', 0, 't1');
    await removeLoneScores(explaining, 'proj_test', 0, 5);
    await findTrace(explaining, scope, 't1');
    await findObservations(explaining, scope, 't1', { after: null, limit: 5 });
    await findTree(explaining, scope, 't1', { after: null, limit: 5 });
    await findLines(explaining, scope, ['t1', 't2'], { after: null, limit: 5 });
    await findLines(explaining, scope, ['t1', 't2'], { after: FIRST_PLACE, limit: 5 });
    await findObservationsOf(explaining, scope, ['t1', 't2'], 5);
    await findInTrace(explaining, scope, 't1', 'o1');
    await findAnywhere(explaining, scope, 'o1');
    await findBatches(explaining, scope, ['x']);
    await findStamps(explaining, scope, ['x']);
    const indexing = searchTables({ ...explaining, transaction: postgres.transaction }, 4096);
    await indexing.changes();
    await indexing.stored(NEWEST_PLACE);
  });
  t.ok(plans.length > 200, `${plans.length} statements`);
  // One assertion a rule: a name with the SQL and the plan of each statement is a hundred megabytes of output.
  t.same(
    plans.filter(([, plan]) => plan.includes('Seq Scan')),
    [],
    'no statement scans a table',
  );
  const isOneByOne = (sql: string): boolean => /FROM (?:traces t|trace_terms p|\()/.test(sql);
  t.ok(plans.filter(([sql]) => isOneByOne(sql)).length > 200);
  t.same(
    plans.filter(([sql, plan]) => isOneByOne(sql) && JOINS_MANY.test(plan)),
    [],
    'the rows of traces, observations and postings are found one by one',
  );
});

/** A client that explains each statement before it runs. */
function explaining(postgres: Awaited<ReturnType<typeof traceDatabase>>['postgres']) {
  const plans: string[] = [];
  const client = {
    async query(sql: string, values: readonly unknown[] = []) {
      const { rows } = await postgres.query(`EXPLAIN ${sql}`, values);
      plans.push(rows.map((row) => String(row['QUERY PLAN'])).join('\n'));
      return postgres.query(sql, values);
    },
  };
  return { plans, client };
}

t.test('the projects with expired traces are found by an index over the age', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  const young = Array.from({ length: 3000 }, (_, i) => anObservation({ traceId: `t${i}` }));
  await traces.write(batchWith(young));
  await postgres.query('ANALYZE traces');
  const { plans, client } = explaining(postgres);
  t.same(await dueProjects(client, [['proj_test', 1, 1e9]]), []);
  t.equal(plans.length, 1);
  t.match(plans[0], /Index Cond: \(\(project = .*\) AND \(updated_hour <= /);
  t.notMatch(plans[0], /Index Scan using traces\w*_pkey/);
  t.notMatch(plans[0], /Filter: .*updated_hour/);
});

t.test('updates and children that wait are found by their age', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  const children = Array.from({ length: 3000 }, (_, i) =>
    anObservation({ traceId: null, parentId: `p${i}`, id: `c${i}` }),
  );
  const updates = Array.from({ length: 3000 }, (_, i) =>
    anObservation({ traceId: null, parentId: null, id: `u${i}` }),
  );
  await traces.write(batchWith([...children, ...updates]));
  await postgres.query('ANALYZE pending_updates, waiting_children');
  const { plans, client } = explaining(postgres);
  t.same(await dueProjects(client, [['proj_test', 1, 1e9]]), []);
  const database = { transaction: <T>(run: (client: never) => T) => run(client as never) };
  t.equal(await expireTracesStep(database as never, 'proj_test', 1, 1), false);
  t.match(plans[0], /using pending_updates_by_age/);
  t.match(plans[0], /using waiting_children_by_age/);
  for (const table of ['pending_updates', 'waiting_children']) {
    const removing = plans.find((plan) => plan.includes(`Delete on ${table}`)) ?? '';
    t.match(removing, `using ${table}_by_age`);
    t.notMatch(removing, 'Seq Scan');
  }
});

t.test('rejections and dead letters that expire are found by their age', async (t) => {
  const { postgres } = await traceDatabase(t, await migratedDatabase(server));
  await postgres.query(`
    INSERT INTO rejections (project, at, key, path, code, reason, count)
      SELECT 'proj_test', n + 10, 'k', '/', 'c', 'r', 1 FROM generate_series(1, 20000) n;
    INSERT INTO queue_dead_letters (branch, batch_id, seq, project, received_at, items, bytes, code, message, failed_at)
      SELECT 1, n::text, n, 'proj_' || n % 2, n + 10, 1, 1, 'c', 'm', 1 FROM generate_series(1, 20000) n;
    ANALYZE rejections, queue_dead_letters`);
  const { plans, client } = explaining(postgres);
  t.notOk(await expireRejectionsStep(client, 5));
  t.notOk(await expireDeadLettersStep(client, 'proj_1', 5, () => {}));
  t.match(plans[0], /using rejections_by_age/);
  t.match(plans[1], /using queue_dead_letters_by_age/);
  for (const plan of plans) t.notMatch(plan, 'Seq Scan');
});

t.test('removing the queues of a project looks at each row once', async (t) => {
  const { postgres, count } = await traceDatabase(t, await migratedDatabase(server));
  const project = `CASE n % 6000 WHEN 1 THEN 'proj_gone' ELSE 'proj_kept' END`;
  await postgres.query(`
    INSERT INTO idempotency (hash, request_hash, project, claim, expires_at)
      SELECT sha256(n::text::bytea), '', ${project}, '', 1 FROM generate_series(1, 60000) n;
    INSERT INTO queue_entries (branch, batch_id, seq, project, received_at, items, bytes, entered_at)
      SELECT n % 3 + 1, 'b' || n, n, ${project}, 1, 2, 1, 1 FROM generate_series(1, 60000) n;
    ANALYZE idempotency, queue_entries`);
  const { plans, client } = explaining(postgres);
  const dropped: number[] = [];
  const onDropped = (_branch: number, items: number) => dropped.push(items);
  for await (const _ of removeEntries(client, 'proj_gone', onDropped));
  t.same(dropped, Array(10).fill(2));
  t.same(await Promise.all(['idempotency', 'queue_entries'].map(count)), [59_990, 59_990]);
  t.ok(plans.length < 35, `${plans.length} statements`);
  for (const plan of plans) t.notMatch(plan, 'Seq Scan');
});

t.test('copies of runs are looked up by their index', async (t) => {
  const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
  await traces.write(batchWith([anObservation()]));
  await postgres.transaction(async (client) => {
    await client.query('SET LOCAL enable_seqscan = off');
    const plans: string[] = [];
    const explaining: typeof client = Object.create(client, {
      query: {
        async value(sql: string, values: readonly unknown[] = []) {
          const { rows } = await client.query(`EXPLAIN ${sql}`, values);
          plans.push(rows.map((row) => String(row['QUERY PLAN'])).join('\n'));
          return client.query(sql, values);
        },
      },
    });
    const wanted = new ReadSet();
    wanted.copies.add('run a');
    await load(explaining, 'proj_test', wanted, emptySnapshot());
    const item = { position: 0, traceId: 't', id: 'o', copy: 'run a' as const };
    await erasedItems(
      explaining,
      { id: 'era_1', project: 'proj_test', until: 0, named: null, isDryRun: false },
      [{ ...item, userId: null, bytes: 0, contents: [] }],
    );
    const found = plans.filter((plan) => plan.includes('copy'));
    t.equal(found.length, 2);
    for (const plan of found) {
      t.match(plan, /Index Cond: .*copy = /);
      t.notMatch(plan, 'Seq Scan on observations');
    }
  });
});

t.test(
  'each trace of a project that the statistics do not know is looked up by its key',
  async (t) => {
    const { postgres, traces } = await traceDatabase(t, await migratedDatabase(server));
    const known = Array.from({ length: 500 }, (_, i) => anObservation({ traceId: `t${i}` }));
    await traces.write(batchWith(known));
    await postgres.query('ANALYZE trace_keys');
    const keys = ['a', 'b', 'c'];
    const names = keys.map((key) => ({ key, longId: null, at: 0 }));
    const [sql, values] = numberTraces('proj_new', names, emptySnapshot()).statement;
    await postgres.transaction(async (client) => {
      const plans: string[] = [];
      const query: typeof client.query = async (text, given) => {
        const { rows } = await client.query(`EXPLAIN ${text}`, given);
        plans.push(rows.map((row) => String(row['QUERY PLAN'])).join('\n'));
        return { rows: [] };
      };
      await query(sql, values);
      await lockTracesByKey({ ...client, query }, 'proj_new', keys, emptySnapshot());
      t.equal(plans.length, 2);
      for (const plan of plans) {
        t.match(plan, /Index Cond: \(\(project = .*\) AND \(key = g.*\.key\)\)/);
        t.notMatch(plan, 'Seq Scan on trace_keys');
      }
    });
  },
);

t.test('a page merges the partitions in the order of time, and sorts nothing', async (t) => {
  const { postgres } = await traceDatabase(t, await migratedDatabase(server));
  await ensureTracePartitions(postgres, 0, 1);
  for (const text of ['', 'session:s', 'user:u', 'has:error', 'start:2026-01-15', 'model:m']) {
    for (const isAscending of [false, true]) {
      const look = {
        ...{ query: aQuery(text, 0), limit: 10, after: { ms: 5, ns: 0, n: 7 }, isAscending },
        ...{ size: 4, staleBefore: 0 },
      };
      const ways = stepPlan(postgresDialect, { project: 'p', since: 0 }, look);
      const { sql, values } = ways.by(countsOf([0, 1, 0, 1, 0])).list('t.n', null);
      const plan = await postgres.transaction(async (client) => {
        await client.query('SET LOCAL enable_seqscan = off');
        await client.query('SET LOCAL enable_sort = off');
        return client.query(`EXPLAIN ${sql}`, values);
      });
      const lines = plan.rows.map((row) => String(row['QUERY PLAN'])).join('\n');
      t.match(lines, 'Merge Append', text);
      t.notMatch(lines, /Sort {2}\(|Seq Scan/, `${text}\n${lines}`);
    }
  }
});
