/** The partitions of the tables of traces: one for several days, and a default one so that no write fails for want of it. */
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import {
  attempt,
  createPartitions,
  DAYS_AHEAD,
  dayName,
  partitionsOf,
} from '../partitions/partitioned.ts';
import { dayOfNumber, firstNumberOf } from './numbers.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

const DAY_MS = 86_400_000;
/**
 * Expired rows of a partition that has ended wait so long for it to be dropped; then they are removed row by row. Another
 * project with a longer retention, or a role that may not change tables, keeps the partition.
 */
const DROP_MS = 26 * 3_600_000;

/** The tables that are partitioned by the numbers of traces, with the storage parameters of their partitions. */
export const TRACE_TABLES: readonly { readonly table: string; readonly options: string }[] = [
  { table: 'traces', options: 'fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05' },
  { table: 'observations', options: 'fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05' },
  { table: 'trace_terms', options: 'autovacuum_vacuum_scale_factor = 0.05' },
  { table: 'payload_texts', options: 'autovacuum_vacuum_scale_factor = 0.05' },
];

/** A partition of every table in `TRACE_TABLES`: the numbers from `from` to before `to`. */
export type TracePartition = {
  /** Behind the name of the table. */
  readonly suffix: string;
  readonly from: number;
  readonly to: number;
  /** The end of its last day, in milliseconds since the epoch. */
  readonly endsAt: number;
};

/** In the order of their numbers. */
export async function tracePartitions(client: PostgresClient): Promise<TracePartition[]> {
  const found = await partitionsOf(client, 'traces');
  return found
    .map(({ name, from, to }) => {
      const end = to === null ? Number.MAX_SAFE_INTEGER : Number(to);
      return {
        suffix: name.slice('traces_'.length),
        from: from === null ? 0 : Number(from),
        to: end,
        endsAt: dayOfNumber(end),
      };
    })
    .sort((a, b) => a.from - b.from);
}

/** The days of a partition. */
export type PartitionDays = 1 | 7 | 30;

const DAYS_OF = { '1d': 1, '7d': 7, '30d': 30 } as const;

/** `configured`: instead of the days by the retention of the projects. */
export async function partitionDays(
  client: PostgresClient,
  configured: keyof typeof DAYS_OF | undefined,
  daysOf: (projectId: string) => number | null,
): Promise<PartitionDays> {
  if (configured !== undefined) return DAYS_OF[configured];
  const projects = await rows<{ id: string }>(client, 'SELECT id FROM projects');
  return daysFor(projects.map(({ id }) => daysOf(id) ?? Number.POSITIVE_INFINITY));
}

/**
 * A statement that does not name the number of a trace is planned for all partitions: a page of a listing takes 0.1 to 0.5 ms
 * for each. So retention leaves at most about 16 of them. `retentions`: of each project, in days.
 */
export function daysFor(retentions: readonly number[]): PartitionDays {
  const longest = Math.max(0, ...retentions);
  if (longest > 98) return 30;
  return longest > 14 ? 7 : 1;
}

/** Creates the partitions of today and the days ahead. Resolves with false if the role may not. */
export async function ensureTracePartitions(
  database: Database,
  now: number,
  days: PartitionDays,
  ahead = DAYS_AHEAD,
): Promise<boolean> {
  const known = await tracePartitions(database);
  let isAligned = true;
  let at = Math.floor(now / DAY_MS) * DAY_MS;
  while (at <= now + ahead * DAY_MS) {
    const number = firstNumberOf(at);
    const covering = known.find(({ from, to }) => from <= number && number < to);
    if (covering !== undefined) {
      at = covering.endsAt;
      continue;
    }
    const range = freeRange(known, at, days, isAligned);
    const outcome = await attempt(() => database.transaction((client) => create(client, range)));
    if (outcome === 'no rights') return false;
    // Rows of the first day may be in the default partition. The days behind it get a partition.
    const isCut: boolean = outcome === 'later' && isAligned;
    isAligned = !isCut;
    at = isCut ? at + DAY_MS : range.endsAt;
  }
  return true;
}

type DayRange = { readonly startsAt: number; readonly endsAt: number };

/** The days around `at`, or from it on, without those of existing partitions. */
function freeRange(
  known: readonly TracePartition[],
  at: number,
  days: PartitionDays,
  isAligned: boolean,
): DayRange {
  const width = days * DAY_MS;
  const aligned = Math.floor(at / width) * width;
  const before = known.filter(({ endsAt }) => endsAt <= at).map(({ endsAt }) => endsAt);
  const behind = known.map(({ from }) => dayOfNumber(from)).filter((start) => start > at);
  return {
    startsAt: isAligned ? Math.max(aligned, ...before) : at,
    endsAt: Math.min(aligned + width, ...behind),
  };
}

function create(client: PostgresClient, { startsAt, endsAt }: DayRange): Promise<void> {
  const bounds = { from: `${firstNumberOf(startsAt)}`, to: `${firstNumberOf(endsAt)}` };
  return createPartitions(
    client,
    TRACE_TABLES.map(({ table, options }) => ({
      ...{ table, options, ...bounds },
      name: `${table}_${dayName(startsAt)}`,
    })),
  );
}

/**
 * The number before which expired traces are removed row by row. Those of a partition that begins with it or later go with
 * their partition.
 */
export function removedByRow(partitions: readonly TracePartition[], since: number): number {
  const dropped = partitions.find(({ endsAt }) => endsAt + DROP_MS > since);
  return dropped?.from ?? Number.MAX_SAFE_INTEGER;
}
