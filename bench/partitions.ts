import { parseArgs } from 'node:util';
import { expireTracesStep } from '../extensions/postgres/batches/purge.ts';
import { migrate } from '../extensions/postgres/connection/migrate.ts';
import type { Postgres } from '../extensions/postgres/connection/pool.ts';
import { openPostgres } from '../extensions/postgres/connection/pool.ts';
import { MIGRATIONS } from '../extensions/postgres/migrations/index.ts';
import { postgresDialect } from '../extensions/postgres/traces/dialect.ts';
import { firstNumberOf } from '../extensions/postgres/traces/numbers.ts';
import { ensureTracePartitions, TRACE_TABLES } from '../extensions/postgres/traces/partitions.ts';
import { findTraces } from '../extensions/postgres/traces/reading.ts';
import { retirePartitions } from '../extensions/postgres/traces/retiring.ts';
import { systemClock } from '../src/component/clock.ts';
import { postgresServer } from '../test/helper/postgres-server.ts';
import { aQuery } from '../test/helper/query.ts';
import { recordingLogger } from '../test/helper/settings.ts';
import { median } from './median.ts';
import { cpuMicros } from './process-cost.ts';

/**
 * The cost of retention in Postgres: expired traces removed row by row, and as a partition. Then the time of a page of a
 * listing by the number of partitions.
 *   node bench/partitions.ts [--observations 1000000]
 */
const { values: flags } = parseArgs({
  options: { observations: { type: 'string', default: '1000000' } },
});
const PER_TRACE = 10;
const TERMS = 10;
const traces = Math.ceil(Number(flags.observations) / PER_TRACE);
const DAY = 86_400_000;
const DAY_0 = Date.UTC(2026, 0, 15);
const COUNTS = [1, 6, 16, 31, 91];
const ROUNDS = 50;

const closing: (() => Promise<void> | void)[] = [];
try {
  const server = await postgresServer({ teardown: (close) => void closing.push(close) }, []);
  const postgres = await openPostgres({
    ...{ url: await server.database(), maxConnections: 1, connectTimeout: 5000 },
    ...{ queryTimeout: 600_000, tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  closing.push(() => postgres.close());
  await migrate(postgres, MIGRATIONS);
  process.stdout.write(`${traces} traces with ${traces * PER_TRACE} observations\n`);
  await report(postgres, 'row by row', async () => {
    while (await expireTracesStep(postgres, 'p', DAY_0 + DAY, DAY_0));
  });
  await report(postgres, 'as a partition', async () => {
    const now = DAY_0 + DAY;
    for await (const _ of retirePartitions(
      postgres,
      () => now,
      now,
      () => {},
    ));
  });
  const later = DAY_0 + DAY;
  await report(postgres, 'a tenth moved', async () => {
    await postgres.query('UPDATE traces SET updated_at = $1 WHERE created_at = $2 AND n % 10 = 0', [
      later,
      DAY_0,
    ]);
    for await (const _ of retirePartitions(
      postgres,
      () => later,
      later,
      () => {},
    ));
  });
  for (const count of COUNTS) await listing(postgres, count);
} finally {
  for (const close of closing.reverse()) await close();
}

/** Fills a day, removes it, and prints what the removal cost. */
async function report(
  postgres: Postgres,
  name: string,
  remove: () => Promise<void>,
): Promise<void> {
  await ensureTracePartitions(postgres, DAY_0, 1, 1);
  await fill(postgres);
  const before = await stateOf(postgres);
  const begun = performance.now();
  await remove();
  const seconds = (performance.now() - begun) / 1000;
  const after = await stateOf(postgres);
  const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  process.stdout.write(
    `${name.padEnd(16)} ${seconds.toFixed(1)} s, ${((after.cpu - before.cpu) / 1e6).toFixed(1)} s CPU, ` +
      `${mib(after.wal - before.wal)} WAL, tables ${mib(before.disk)} before and ${mib(after.disk)} after\n`,
  );
}

async function fill(postgres: Postgres): Promise<void> {
  const first = firstNumberOf(DAY_0) + 1;
  await postgres.query(
    `INSERT INTO traces (n, project, key, at_ms, at_ns, name, status, observations, created_at, updated_at, stale_changes, terms)
     SELECT $1::bigint + i, 'p', convert_to(md5(i::text), 'UTF8'), $2::bigint + i, 0, 'chat', 1, ${PER_TRACE}, $2::bigint, $2::bigint, 0,
       ARRAY(SELECT hashtextextended(CASE WHEN k < 5 THEN 'all' ELSE (i / 50)::text END, k) FROM generate_series(1, ${TERMS}) k)
     FROM generate_series(1, $3::integer) i`,
    [first, DAY_0, traces],
  );
  await postgres.query(
    'INSERT INTO trace_terms SELECT unnest(terms), at_ms, at_ns, n FROM traces ORDER BY 1, 2',
  );
  await postgres.query('INSERT INTO trace_keys SELECT project, key, n FROM traces');
  await postgres.query(
    `INSERT INTO observations (trace, key, n, project, batch, position, version, flags, parent, name, kind, status,
       start_ms, start_ns, end_ms, end_ns, model, usage, details, created_at, updated_at)
     SELECT t.n, convert_to(':' || substr(md5(i::text), 1, 16), 'UTF8'), t.n + i, 'p', '01HZZZZZZZZZZZZZZZZZZZZZZZ', i, 1, 0,
       substr(md5('0'), 1, 16), 'ChatOpenAI', 1, 1, at_ms + i, 0, at_ms + i + 800, 0, 'gpt-4o',
       '{"input_tokens":812,"output_tokens":120}', '{"environment":"prod","release":"2026.1","provider":"openai"}',
       $1::bigint, $1::bigint
     FROM traces t, generate_series(1, ${PER_TRACE}) i`,
    [DAY_0],
  );
  await postgres.query(
    `INSERT INTO batch_traces SELECT '01' || lpad((n % 20000)::text, 24, '0'), n FROM traces`,
  );
  await postgres.query('VACUUM ANALYZE');
  await postgres.query('CHECKPOINT');
}

type State = { readonly cpu: number; readonly wal: number; readonly disk: number };

async function stateOf(postgres: Postgres): Promise<State> {
  const { rows } = await postgres.query(
    `SELECT pg_backend_pid() AS pid, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal,
       (SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
        WHERE relkind = 'r' AND relname ~ '^(traces|observations|trace_terms|trace_keys|batch_traces|free_batches)') AS disk`,
  );
  const [{ pid, wal, disk } = {}] = rows;
  return { cpu: cpuMicros(Number(pid)), wal: Number(wal), disk: Number(disk) };
}

/** The median time of a page of 50 traces, which no partition of a trace's number narrows. */
async function listing(postgres: Postgres, count: number): Promise<void> {
  const known = await postgres.query(
    `SELECT count(*) AS count FROM pg_inherits WHERE inhparent = 'traces'::regclass`,
  );
  const missing = count - Number(known.rows[0]?.count);
  if (missing > 0) {
    const from = DAY_0 + 400 * DAY;
    await ensureTracePartitions(postgres, from, 1, count - 3);
    await postgres.query(
      `INSERT INTO traces (n, project, key, at_ms, at_ns, observations, created_at, updated_at)
       SELECT ($1::bigint + d) * (1::bigint << 38) + i, 'p', int4send(d) || int4send(i), ($1::bigint + d) * ${DAY} + i, 0, 1, 0, 0
       FROM generate_series(0, $2::integer) d, generate_series(1, 200) i ON CONFLICT DO NOTHING`,
      [from / DAY, count - 3],
    );
    await postgres.query('ANALYZE');
  }
  const look = {
    ...{
      query: aQuery('', 0),
      limit: 50,
      after: null,
      isAscending: false,
      size: 100,
      staleBefore: 0,
    },
  };
  const times: number[] = [];
  for (let round = -5; round < ROUNDS; round++) {
    const begun = performance.now();
    await findTraces(postgres, postgresDialect, ['p', 0], look);
    if (round >= 0) times.push(performance.now() - begun);
  }
  const tables = await postgres.query(
    `SELECT count(*) AS count FROM pg_inherits WHERE inhparent = 'traces'::regclass`,
  );
  process.stdout.write(
    `listing over ${tables.rows[0]?.count} partitions of ${TRACE_TABLES.length} tables: ${median(times).toFixed(2)} ms a page\n`,
  );
}
