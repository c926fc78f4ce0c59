import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from '../helper/free-ports.ts';
import type { Attacked } from './attacks/attacks.ts';
import { victimKey } from './attacks/victim.ts';
import { eventually, list, record, send } from './client.ts';
import { noticeDeathSoon, startCluster } from './cluster.ts';
import { oracle } from './cluster-oracle.ts';
import type { Daemon, Tree } from './daemon.ts';
import { startDaemon, total } from './daemon.ts';
import { compare, type Entry, type Target } from './journal.ts';
import { storedOnce } from './kill.ts';
import { treeAt } from './shipped.ts';

type Teardown = { teardown(clean: () => Promise<void> | void): void };

/** A process that a soak freezes and kills. */
export type Victim = {
  readonly name: string;
  /** True if requests to this gateway may fail while the process is away. */
  harms(base: string): boolean;
  freeze(): void;
  thaw(): void;
  kill(): Promise<unknown>;
  start(): Promise<void>;
};

/** A system under attack, with a project of the well-behaved client and one of the attacker. */
export type System = {
  readonly name: string;
  readonly victims: readonly Victim[];
  readonly daemons: readonly { readonly name: string; readonly daemon: Daemon }[];
  readonly attacked: readonly Attacked[];
  /** Where the well-behaved client sends its next request. */
  target(): Target;
  /** Waits until every batch is delivered, and returns a sentence for each violation. */
  problems(journal: readonly Entry[]): Promise<string[]>;
};

const UNLIMITED = {
  projects: 'unlimited',
  events_per_month: 'unlimited',
  bytes_per_hour: 'unlimited',
};

function victimOf(name: string, daemon: Daemon, harms: (base: string) => boolean): Victim {
  return {
    name,
    harms,
    freeze: () => void process.kill(daemon.pid(), 'SIGSTOP'),
    thaw: () => void process.kill(daemon.pid(), 'SIGCONT'),
    kill: () => daemon.end('SIGKILL'),
    start: () => daemon.start(),
  };
}

function attackedOf(daemon: Daemon, key: string): Attacked {
  const { base, health, metricsBase, adminBase } = daemon;
  const config = JSON.parse(readFileSync(daemon.configPath, 'utf8')) as Tree;
  const { endpoint } = treeAt(config, 'receivers', 'otlp', 'protocols', 'grpc');
  return { base, health, metricsBase, adminBase, key, grpc: `http://${String(endpoint)}` };
}

export async function embedded(t: Teardown): Promise<System> {
  const [port] = await freePorts(1);
  const grpc = { endpoint: `127.0.0.1:${port}` };
  const daemon = await startDaemon(t, {
    config: {
      extensions: { sqlite: { organization: UNLIMITED } },
      receivers: { otlp: { protocols: { grpc } } },
    },
  });
  const key = await victimKey(daemon, 'soak');
  const target = () => ({ base: daemon.base, key });
  return {
    name: 'embedded',
    victims: [victimOf('daemon', daemon, () => true)],
    daemons: [{ name: 'daemon', daemon }],
    attacked: [attackedOf(daemon, daemon.key)],
    target,
    async problems(journal) {
      await eventually(
        () => daemon.metrics(),
        (samples) => total(samples, 'tracectl_queue_entries') === 0,
        'an empty queue',
        120_000,
      );
      const { problems, items } = await compare(target, journal);
      problems.push(...refusedOnes(journal), ...(await ledgerProblems(daemon, items)));
      await daemon.end('SIGTERM');
      problems.push(...storedOnce(join(daemon.directory, 'data'), journal));
      return problems;
    },
  };
}

/** Valid requests that were refused with another status than 503. */
function refusedOnes(journal: readonly Entry[]): string[] {
  return journal
    .filter(({ state, items }) => state === 'refused' && items.length > 0)
    .map(({ format, traceId, status }) => `${format} ${traceId}: refused with ${status}`);
}

/** The usage of the client's project, and the sums of the ledger. */
async function ledgerProblems(daemon: Daemon, items: number): Promise<string[]> {
  const problems: string[] = [];
  const history = await daemon.cli('usage', 'history', '--project', 'soak', '--json');
  const rows = list(record(JSON.parse(history.stdout)).usage).map(record);
  const events = rows.reduce((sum, row) => sum + Number(row.events), 0);
  if (events !== items) problems.push(`usage: ${events}, and ${items} are read back`);
  const verified = await daemon.cli('usage', 'verify');
  if (verified.code !== 0) problems.push(`usage verify: ${verified.stdout}${verified.stderr}`);
  return problems;
}

export async function cluster(t: Teardown): Promise<System> {
  const started = await startCluster(t, {
    ...{ gateways: 2, workers: 2, worker: noticeDeathSoon },
    gateway(config) {
      treeAt(config, 'extensions', 'postgres').organization = UNLIMITED;
    },
  });
  const { gateways, workers, redis, postgres, adminToken } = started;
  const [first] = gateways;
  if (first === undefined) throw new Error('there is no gateway');
  const made = await send(first.adminBase, {
    method: 'POST',
    path: '/api/v1/projects',
    headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'soak' }),
  });
  const project = String(record(JSON.parse(String(made.body))).id);
  const { token: key } = await first.createKey('--project', 'soak');
  const target = () => ({ base: started.target().base, key });
  const named = (name: string, daemons: readonly Daemon[]) =>
    daemons.map((daemon, i) => ({ name: `${name} ${i}`, daemon }));
  return {
    name: 'cluster',
    victims: [
      ...named('gateway', gateways).map(({ name, daemon }) =>
        victimOf(name, daemon, (base) => base === daemon.base),
      ),
      ...named('worker', workers).map(({ name, daemon }) => victimOf(name, daemon, () => false)),
      { name: 'Redis', harms: () => true, ...redis },
      { name: 'Postgres', harms: () => true, ...postgres },
    ],
    daemons: [...named('gateway', gateways), ...named('worker', workers)],
    attacked: gateways.map((gateway) => attackedOf(gateway, started.key)),
    target,
    async problems(journal) {
      await started.drained();
      return oracle(started, journal, { target, project });
    },
  };
}
