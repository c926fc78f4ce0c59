import { parseArgs } from 'node:util';
import pg from 'pg';
import { startCluster } from '../../test/e2e/cluster.ts';
import { otlp } from '../payloads.ts';
import { Owner } from './owner.ts';
import { cpuOf, send } from './together.ts';

/**
 * Measures how workers that store spans of one project at once hold each other up in Postgres: one worker, two, and four, with the same
 * load. See ../README.md.
 *   node bench/gateways/workers.ts [--workers 1,2,4] [--requests 600]
 */
const { values: flags } = parseArgs({
  options: {
    workers: { type: 'string', default: '1,2,4' },
    requests: { type: 'string', default: '600' },
  },
});
const REQUESTS = Number(flags.requests);
const WARMING = 200;
const CONNECTIONS = 32;
const SAMPLE_MS = 10;
/** The sessions that work, and those of them that wait for locks. */
const SESSIONS = `
  SELECT count(*)::int AS working,
    count(*) FILTER (WHERE wait_event_type = 'Lock')::int AS locked,
    count(*) FILTER (WHERE wait_event_type = 'LWLock')::int AS light
  FROM pg_stat_activity
  WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()`;

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const payload = otlp(100, 560);
print(`${REQUESTS} requests of ${payload.name} to one gateway, until all is stored`);
print(
  '| workers | spans/s stored | CPU µs a span: workers | Postgres | sessions that work, mean | of them waiting for a row or a table | for another lock |',
);
print('|---|---|---|---|---|---|---|');
for (const workers of flags.workers.split(',').map(Number)) await measure(workers);

async function measure(workers: number): Promise<void> {
  const owner = new Owner();
  try {
    const cluster = await startCluster(owner, { gateways: 1, workers });
    await send(cluster, payload, WARMING, CONNECTIONS);
    await cluster.drained();
    const before = cpuOf(cluster);
    const begun = performance.now();
    const sampling = sampled(cluster.database);
    await send(cluster, payload, REQUESTS, CONNECTIONS);
    await cluster.drained();
    const seconds = (performance.now() - begun) / 1000;
    const { samples, working, locked, light } = await sampling.end();
    const after = cpuOf(cluster);
    const spans = REQUESTS * payload.itemsPerRequest;
    const cells = [
      ...[workers, (spans / seconds).toFixed(0)],
      ...[(after.worker - before.worker) / spans, (after.postgres - before.postgres) / spans].map(
        (micros) => micros.toFixed(1),
      ),
      (working / samples).toFixed(2),
      ...[locked, light].map((waiting) => `${((100 * waiting) / working).toFixed(2)} %`),
    ];
    print(`| ${cells.join(' | ')} |`);
  } finally {
    await owner.end();
  }
}

/** Sums over all samples. `light`: locks of Postgres inside its memory, such as that of the log. */
type Sessions = { samples: number; working: number; locked: number; light: number };

/** Looks at the sessions of the database until its end. */
function sampled(database: string): { end(): Promise<Sessions> } {
  const sum: Sessions = { samples: 0, working: 0, locked: 0, light: 0 };
  let isEnded = false;
  const look = async (): Promise<Sessions> => {
    const client = new pg.Client({ connectionString: database });
    await client.connect();
    try {
      while (!isEnded) {
        const [row] = (await client.query<Omit<Sessions, 'samples'>>(SESSIONS)).rows;
        sum.samples++;
        for (const name of ['working', 'locked', 'light'] as const) sum[name] += row?.[name] ?? 0;
        await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
      }
    } finally {
      await client.end();
    }
    return sum;
  };
  const looking = look();
  return {
    end: () => {
      isEnded = true;
      return looking;
    },
  };
}
