import { eventually } from './client.ts';
import type { Cluster } from './cluster.ts';
import { at, redisValues, sql } from './cluster.ts';
import { total } from './daemon.ts';
import { compare, type Entry, Sightings, type Target } from './journal.ts';

/** Whose journal it is: the project's alone, or everybody's. */
type Client = { target(): Target; readonly project?: string };

/**
 * The invariants of a drained cluster, after any kills. Returns a sentence for each violation:
 *
 *   acknowledged requests are stored once and as sent; unanswered ones are stored whole or not at all
 *   usage = stored = readable; no counter admits more than the ledger leaves
 *   refusals are correct: failures of servers are answered 503
 *   no refused item is in any table or in Redis; no payload is in Redis
 *   there are no dead letters and no quarantined entries, and `usage verify` agrees
 */
export async function oracle(
  cluster: Cluster,
  journal: readonly Entry[],
  { target, project }: Client = cluster,
): Promise<string[]> {
  const { database } = cluster;
  const { problems, items } = await compare(target, journal);
  for (const { format, traceId, state, status, items: good } of journal) {
    if (state !== 'refused' || good.length === 0) continue;
    problems.push(`${format} ${traceId}: refused with ${status}`);
  }
  const where = project === undefined ? '' : `WHERE project = '${project}'`;
  const counts = await sql(
    database,
    `SELECT (SELECT count(*) FROM observations ${where}) AS observations,
       (SELECT coalesce(sum(events), 0) FROM all_usage ${where}) AS usage,
       (SELECT coalesce(sum(usage_events), 0) FROM batches ${where}) AS batches`,
  );
  for (const [what, count] of Object.entries(at(counts, 0))) {
    if (Number(count) !== items) problems.push(`${what}: ${count}, and ${items} are read back`);
  }
  for (const table of ['queue_dead_letters', 'queue_quarantined', 'pending_updates']) {
    const rows = await sql(database, `SELECT * FROM ${table} LIMIT 10`);
    problems.push(...rows.map((row) => `${table}: ${JSON.stringify(row)}`));
  }
  const [used, ...counted] = await monthEvents(cluster);
  for (const count of counted) {
    if (count < used) problems.push(`a gateway counts ${count} events of ${used}`);
  }
  problems.push(...(await sightings(cluster, journal)));
  const verified = await eventually(
    () => at(cluster.gateways, 0).cli('usage', 'verify'),
    ({ stderr }) => !/Postgres (cannot be (used|reached)|has no connection|is sh)/.test(stderr),
    'an answer of Postgres in time, on a slow machine',
    30_000,
  );
  if (verified.code !== 0) problems.push(`usage verify: ${verified.stdout}${verified.stderr}`);
  return problems;
}

/** Events of this month in the ledger, then in the counters of each gateway. */
export async function monthEvents({
  database,
  gateways,
}: Cluster): Promise<[ledger: number, ...counted: number[]]> {
  const now = new Date();
  const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 3_600_000;
  const [row] = await sql(
    database,
    `SELECT sum(events) AS events FROM all_usage WHERE hour >= ${month}`,
  );
  const pages = await Promise.all(gateways.map((gateway) => gateway.metrics()));
  const counted = pages.map((page) => total(page, 'tracectl_quota_month_events'));
  return [Number(row?.events), ...counted];
}

/** Searches every cell of every table, and every value in Redis. */
async function sightings(cluster: Cluster, journal: readonly Entry[]): Promise<string[]> {
  const { database, redis } = cluster;
  const seen = new Sightings();
  const tables = await sql(
    database,
    `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  );
  for (const { relname } of tables) {
    for (const row of await sql(database, `SELECT * FROM "${relname}"`)) {
      for (const [column, cell] of Object.entries(row)) seen.look(cell, `${relname}.${column}`);
    }
  }
  const problems = seen.problems(journal);
  for (const [key, value] of await redisValues(redis)) {
    const found = /(kill|refused)-[0-9a-f]{24}/.exec(value)?.[0];
    if (found !== undefined) problems.push(`${found} is in Redis, in ${key}`);
  }
  return problems;
}
