import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Cluster } from './cluster.ts';
import { noticeDeathSoon, startCluster } from './cluster.ts';
import { oracle } from './cluster-oracle.ts';
import { drawn } from './drawn.ts';
import { type Entry, startLoad } from './journal.ts';

/**
 * Kills gateways, workers, Redis and Postgres of a cluster under load, one or two at once, for the given time.
 * Then it waits for every delivery and checks the oracle. A printed seed determines the victims and the times; the
 * interleaving depends on the machine.
 *
 *   node test/e2e/kill-cluster.ts --seconds 60 [--seed 7]
 */
export type ClusterSummary = {
  readonly kills: number;
  readonly requests: number;
  readonly acknowledged: number;
  /** One sentence for each violation; empty if there is none. */
  readonly problems: readonly string[];
};

export async function killCluster(
  seconds: number,
  seed: number,
  progress: (text: string) => void,
): Promise<ClusterSummary> {
  const closing: (() => Promise<void> | void)[] = [];
  try {
    const cluster = await startCluster(
      { teardown: (close) => void closing.unshift(close) },
      { worker: noticeDeathSoon },
    );
    const journal: Entry[] = [];
    const options = { clients: 6, open: [503], restMs: () => 30 };
    const load = startLoad(cluster.target, journal, options);
    const kills = await killSome(cluster, seconds, drawn(seed), progress).finally(load.stop);
    await cluster.drained();
    const problems = await oracle(cluster, journal);
    const acknowledged = journal.filter(({ state }) => state === 'acknowledged').length;
    if (acknowledged === 0) problems.push('nothing was acknowledged');
    return { kills, requests: journal.length, acknowledged, problems };
  } finally {
    for (const close of closing) await close();
  }
}

type Victim = {
  readonly name: string;
  kill(): Promise<unknown>;
  start(): Promise<void>;
};

async function killSome(
  cluster: Cluster,
  seconds: number,
  draw: (below: number) => number,
  progress: (text: string) => void,
): Promise<number> {
  const { servers, daemons } = victimsOf(cluster);
  const all = [...servers, ...daemons];
  const end = Date.now() + seconds * 1000;
  let kills = 0;
  while (Date.now() < end) {
    const victims = new Set(Array.from({ length: 1 + draw(2) }, () => all[draw(all.length)]));
    const dead = all.filter((victim) => victims.has(victim));
    const [before, down] = [draw(1500), draw(2000)];
    const names = dead.map(({ name }) => name).join(' and ');
    progress(`after ${before} ms: ${names}, down for ${down} ms`);
    await sleep(before);
    await Promise.all(dead.map((victim) => victim.kill()));
    await sleep(down);
    // Gateways and workers need their servers at the start.
    await Promise.all(servers.filter((one) => dead.includes(one)).map((one) => one.start()));
    await Promise.all(daemons.filter((one) => dead.includes(one)).map((one) => one.start()));
    kills += dead.length;
  }
  return kills;
}

function victimsOf({ gateways, workers, redis, postgres }: Cluster): {
  readonly servers: readonly Victim[];
  readonly daemons: readonly Victim[];
} {
  const named = [
    ...gateways.map((daemon, i) => ({ name: `gateway ${i}`, daemon })),
    ...workers.map((daemon, i) => ({ name: `worker ${i}`, daemon })),
  ];
  return {
    servers: [
      { name: 'Redis', ...redis },
      { name: 'Postgres', ...postgres },
    ],
    daemons: named.map(({ name, daemon }) => ({
      name,
      kill: () => daemon.end('SIGKILL'),
      start: () => daemon.start(),
    })),
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: String(randomInt(2 ** 31)) },
    },
  });
  const print = (text: string) => void process.stdout.write(`${text}\n`);
  print(`seed ${values.seed}`);
  const summary = await killCluster(Number(values.seconds), Number(values.seed), print);
  const { problems, ...counts } = summary;
  for (const problem of problems.slice(0, 50)) print(problem);
  const verdict = problems.length === 0 ? 'ok' : `${problems.length} problems`;
  print(`seed ${values.seed}: ${JSON.stringify(counts)} ${verdict}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
