import { parseArgs } from 'node:util';
import pg from 'pg';
import { insertBatches } from '../extensions/postgres/batches/batches.ts';
import { migrate } from '../extensions/postgres/connection/migrate.ts';
import { openPostgres } from '../extensions/postgres/connection/pool.ts';
import { MIGRATIONS } from '../extensions/postgres/migrations/index.ts';
import type { Cell, Column } from '../extensions/postgres/traces/columns.ts';
import { columnParameters, namesOf, unnest } from '../extensions/postgres/traces/columns.ts';
import { OBSERVATION_COLUMNS } from '../extensions/postgres/traces/rows.ts';
import type { Entry } from '../extensions/postgres/traces/snapshot.ts';
import { postgresTraces } from '../extensions/postgres/traces/traces.ts';
import { systemClock } from '../src/component/clock.ts';
import type { ObservationBatch } from '../src/model/batch.ts';
import type { Observation } from '../src/model/observation.ts';
import { ulid } from '../src/model/ulid.ts';
import { ROW, rowOf } from '../src/store/rows/observation-row.ts';
import { anObservation } from '../test/helper/batches.ts';
import { postgresServer } from '../test/helper/postgres-server.ts';
import { databaseOf } from '../test/helper/queue-database.ts';
import { recordingLogger } from '../test/helper/settings.ts';
import { batchWith, GROUPS } from '../test/helper/trace-database.ts';
import { median } from './median.ts';
import { cpuMicros } from './process-cost.ts';

/**
 * Writes of observations to Postgres: rows per second, with one transaction per batch that is synced to the disk, and
 * CPU per row, in this process and in the backends. The floor is COPY, which can neither merge nor skip existing rows.
 *   node bench/postgres.ts [--rounds 7] [--rows 10000]
 */
const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    rows: { type: 'string', default: '10000' },
  },
});
const rounds = Number(flags.rounds);
const total = Number(flags.rows);

const COLUMNS: readonly Column<Entry>[] = [
  { name: 'project', type: 'text', of: () => 'p' },
  ...OBSERVATION_COLUMNS,
];
const INTO = `observations (${namesOf(COLUMNS)})`;
const PER_TRACE = 5;
/** Deliveries that a worker has in flight. */
const AT_ONCE = 8;

type Way = {
  readonly name: string;
  readonly write: (batch: ObservationBatch) => Promise<void>;
  readonly atOnce?: number;
  /** The raw batch is in Postgres already, as gateways with a `store` leave it. */
  readonly isKept?: boolean;
};

/** Characters with a meaning in COPY's text format. */
const SPECIAL = /[\\\t\n\r]/;
let made = 0;
const closing: (() => Promise<void> | void)[] = [];
try {
  const server = await postgresServer({ teardown: (close) => void closing.push(close) }, []);
  for (const size of [100, 500]) print(size, await measure(await server.database(), size));
} finally {
  for (const close of closing.reverse()) await close();
}

/** One round: rows per second, and microseconds of CPU per row. */
type Sample = { readonly speed: number; readonly client: number; readonly server: number };

async function measure(url: string, size: number): Promise<Map<string, Sample[]>> {
  const connection = { url, maxConnections: 2, connectTimeout: 5000, queryTimeout: 30_000 };
  const postgres = await openPostgres({
    ...connection,
    tls: undefined,
    clock: systemClock,
    logger: recordingLogger(),
  });
  closing.push(() => postgres.close());
  await migrate(postgres, MIGRATIONS);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  closing.push(() => client.end());
  const traces = postgresTraces(
    databaseOf(postgres),
    { since: () => Number.MIN_SAFE_INTEGER },
    GROUPS,
  );
  const { write } = traces;
  const ways: readonly Way[] = [
    { name: 'COPY', write: ({ observations }) => copy(client, observations.map(entryOf)) },
    { name: 'UNNEST', write: ({ observations }) => fromColumns(client, observations.map(entryOf)) },
    { name: 'multi-row', write: ({ observations }) => values(client, observations.map(entryOf)) },
    { name: 'traces.write, 1 at a time', write, isKept: true },
    { name: `traces.write, ${AT_ONCE} at once`, write, atOnce: AT_ONCE, isKept: true },
    { name: 'the same, and raw batches', write, atOnce: AT_ONCE },
  ];
  const samples = new Map<string, Sample[]>(ways.map(({ name }) => [name, []]));
  // Opens all connections before their CPU is read: the pool closes idle ones.
  const backends = async (): Promise<readonly number[]> => {
    await Promise.all([1, 2].map(() => postgres.query('SELECT pg_sleep(0.05)')));
    const { rows } = await client.query(
      `SELECT pid FROM pg_stat_activity
       WHERE datname = current_database() AND backend_type = 'client backend'`,
    );
    return rows.map(({ pid }) => Number(pid));
  };
  for (let round = -1; round < rounds; round++) {
    // Reversed every other round, so that other load on the machine affects all rows alike.
    const turns = round % 2 === 0 ? ways : ways.toReversed();
    for (const { name, write, atOnce = 1, isKept = false } of turns) {
      const batches = Array.from({ length: Math.ceil(total / size) }, () =>
        batchWith(batchOf(size)),
      );
      if (isKept) {
        const sources = batches.map(({ source }) => source);
        await postgres.transaction((transaction) => insertBatches(transaction, sources));
      }
      const pids = await backends();
      const server = () => pids.reduce((sum, pid) => sum + cpuMicros(pid), 0);
      const before = { at: performance.now(), client: cpuMicros(process.pid), server: server() };
      const waiting = batches.values();
      const writer = async (): Promise<void> => {
        for (const batch of waiting) await write(batch);
      };
      await Promise.all(Array.from({ length: atOnce }, writer));
      const rows = batches.length * size;
      const sample = {
        speed: (1000 * rows) / (performance.now() - before.at),
        client: (cpuMicros(process.pid) - before.client) / rows,
        server: (server() - before.server) / rows,
      };
      if (round >= 0) samples.get(name)?.push(sample);
    }
  }
  return samples;
}

/** Observations with about the narrow fields of an agent's step. */
function batchOf(size: number): Observation[] {
  return Array.from({ length: size }, () => {
    const n = made++;
    return anObservation({
      ...{ id: `observation-${n}`, traceId: `trace-${Math.floor(n / PER_TRACE)}` },
      ...{ model: 'gpt-4o-mini', usage: { input_tokens: 1200, output_tokens: 80 } },
      customFields: { team: 'search', environment: 'production', release: '2026-01-15' },
    });
  });
}

function entryOf(observation: Observation): Entry {
  const row = rowOf(observation, observation.traceId ?? '', 0, 'native');
  const state = {
    batch: ulid(Date.now()),
    createdAt: Date.now(),
    updatedAt: Date.now(),
    merged: null,
  };
  const n = Number(observation.id.split('-')[1]);
  return { n, key: row[ROW.KEY], trace: -1 - Math.floor(n / PER_TRACE), row, state };
}

async function fromColumns(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  await client.query(
    `INSERT INTO ${INTO} SELECT * FROM ${unnest(COLUMNS, 1)} AS g`,
    columnParameters(COLUMNS, entries),
  );
}

function cellsOf(entry: Entry): Cell[] {
  return COLUMNS.map(({ of }) => of(entry));
}

async function values(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  const rows = entries.map(cellsOf);
  const places = rows.map((row, r) => `(${row.map((_, i) => `$${r * row.length + i + 1}`)})`);
  await client.query(`INSERT INTO ${INTO} VALUES ${places}`, rows.flat());
}

/** The methods that the driver calls on a query that copies. */
type CopyAnswers = {
  handleCopyInResponse(connection: {
    sendCopyFromChunk(chunk: Buffer): void;
    endCopyFrom(): void;
  }): void;
  handleCommandComplete(): void;
  handleError(error: Error): void;
  handleReadyForQuery(): void;
};

function copy(client: pg.Client, entries: readonly Entry[]): Promise<void> {
  const rows = entries.map((entry) => `${cellsOf(entry).map(copied).join('\t')}\n`);
  const text = Buffer.from(rows.join(''));
  return new Promise((resolve, reject) => {
    let failure: Error | undefined;
    const query: pg.Submittable & CopyAnswers = {
      submit: (connection) => connection.query(`COPY ${INTO} FROM STDIN`),
      handleCopyInResponse(connection) {
        connection.sendCopyFromChunk(text);
        connection.endCopyFrom();
      },
      handleCommandComplete() {},
      handleError(error: Error) {
        failure = error;
      },
      handleReadyForQuery: () => (failure === undefined ? resolve() : reject(failure)),
    };
    client.query(query);
  });
}

function copied(cell: Cell): string | number {
  if (cell === null) return '\\N';
  if (typeof cell === 'number') return cell;
  if (Buffer.isBuffer(cell)) return `\\\\x${cell.toString('hex')}`;
  return SPECIAL.test(cell) ? cell.replaceAll(new RegExp(SPECIAL, 'g'), '\\$&') : cell;
}

function print(size: number, samples: Map<string, Sample[]>): void {
  const floors = samples.get('COPY') ?? [];
  const lines = [...samples].map(([name, all]) => {
    const of = (read: (sample: Sample) => number) => median(all.map(read));
    const ratio = (read: (sample: Sample) => number) =>
      median(all.map((sample, i) => read(sample) / read(floors[i] ?? sample))).toFixed(2);
    return [
      name.padEnd(26),
      `${Math.round(of(({ speed }) => speed))
        .toLocaleString('en')
        .padStart(8)} rows/s`,
      `${ratio(({ speed }) => speed)} of COPY`,
      `CPU a row: ${of(({ client }) => client).toFixed(1)} µs here`,
      `${ratio(({ client }) => client)} of COPY`,
      `${of(({ server }) => server).toFixed(1)} µs in Postgres`,
    ].join('  ');
  });
  const about = `batches of ${size}, ${rounds} rounds of ${total} rows`;
  process.stdout.write(`\n${about}\n${lines.join('\n')}\n`);
}
