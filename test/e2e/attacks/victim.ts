import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { send } from '../client.ts';
import type { Daemon } from '../daemon.ts';

/** The answers that a well-behaved client got. */
type VictimReport = {
  /** Answers by status; 0 counts requests without an answer. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Milliseconds of each request, in ascending order. */
  readonly latencies: readonly number[];
  /** Milliseconds that 99 % of the requests did not exceed. */
  readonly p99: number;
};

export type Victim = {
  /** Sends for this time and reports on that time only. */
  watch(ms: number): Promise<VictimReport>;
  /** Sends while the attack runs, and reports on it. */
  during(attack: () => Promise<unknown>): Promise<VictimReport>;
  close(): void;
};

/** The p99 of a well-behaved client beside an attack, in relation to its p99 alone. */
const MAX_SLOWDOWN = 3;
/** Other load of the machine changes ratios of times too, so the suite only prints them unless this is set. */
const HOLDS_SLOWDOWN = process.env.TRACECTL_TEST_SLOWDOWN === '1';
/** Within this time a request is as fast as the scheduling of a busy machine allows. Milliseconds. */
const NOISE_MS = 10;
/** The same for an event to be readable: a write and a read, behind the threads of a large body. Milliseconds. */
export const READABLE_MS = 300;

/** How often an attack is repeated: other load of the machine slows down single rounds. */
const ROUNDS = HOLDS_SLOWDOWN ? 3 : 1;

/**
 * Runs an attack beside the client, and compares with a time alone right before it. Returns the statuses of all rounds, and
 * the p99 in relation to the p99 alone: of the first round within 3 times, or of the last round.
 */
export async function beside(
  victim: Victim,
  attack: () => Promise<unknown>,
  noiseMs = NOISE_MS,
): Promise<{ readonly statuses: readonly string[]; readonly slowdown: number }> {
  const statuses = new Set<string>();
  let slowdown = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS && slowdown > MAX_SLOWDOWN; round++) {
    const alone = await victim.watch(2_000);
    const report = await victim.during(attack);
    for (const status of Object.keys(report.statuses)) statuses.add(status);
    slowdown = report.p99 / Math.max(alone.p99, noiseMs);
  }
  return { statuses: [...statuses], slowdown };
}

/** Fails the test if the client was slower than allowed; without `TRACECTL_TEST_SLOWDOWN=1` the ratio is a comment. */
export function holdSlowdown(t: Test, slowdown: number, attack: string): void {
  const text = `${attack}: the p99 is ${slowdown.toFixed(1)} times the one alone`;
  if (HOLDS_SLOWDOWN) t.ok(slowdown <= MAX_SLOWDOWN, text);
  else t.comment(text);
}

/** Creates a project of its own for the client, and a key. */
export async function victimKey(daemon: Daemon, name = 'victim'): Promise<string> {
  const created = await daemon.cli('projects', 'create', name);
  if (created.code !== 0) throw new Error(`projects create: ${created.stderr}`);
  return (await daemon.createKey('--project', name)).token;
}

/** One request of a client. */
type Outcome = { readonly status: number; readonly ms: number };

/** A well-behaved client: sends one event every `everyMs` on one kept connection, without retries. */
export function victimOf(daemon: Daemon, key: string, everyMs = 50): Victim {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let sent = 0;
  const sendNext = () => sendOne(daemon, key, agent, `victim-${++sent}`);
  return clientOf(sendNext, everyMs, () => agent.destroy());
}

/** As `victimOf`, and reads each event until it is there: the latency is the time until the event is readable. */
export function readerOf(daemon: Daemon, key: string, everyMs = 200): Victim {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { authorization: `Bearer ${key}` };
  let sent = 0;

  async function sendAndRead(): Promise<Outcome> {
    const id = `reader-${++sent}`;
    const started = performance.now();
    const { status } = await sendOne(daemon, key, agent, id);
    const call = { path: `/api/v1/observations/${id}?trace_id=${id}`, headers, agent };
    for (let isThere = status !== 202; !isThere; ) {
      isThere = (await send(daemon.base, call)).status === 200;
      if (!isThere) await sleep(READ_EVERY_MS);
    }
    return { status, ms: performance.now() - started };
  }

  return clientOf(sendAndRead, everyMs, () => agent.destroy());
}

const READ_EVERY_MS = 10;

async function sendOne(daemon: Daemon, key: string, agent: Agent, id: string): Promise<Outcome> {
  const event = { id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok' };
  const started = performance.now();
  const status = await send(daemon.base, {
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ events: [event] }),
    agent,
  }).then(
    (answer) => answer.status,
    () => 0,
  );
  return { status, ms: performance.now() - started };
}

function clientOf(next: () => Promise<Outcome>, everyMs: number, close: () => void): Victim {
  async function sendUntil(isOver: () => boolean): Promise<VictimReport> {
    const answers: Outcome[] = [];
    do {
      const answer = await next();
      answers.push(answer);
      await sleep(Math.max(0, everyMs - answer.ms));
    } while (!isOver());
    return reportOf(answers);
  }

  return {
    watch(ms) {
      const end = performance.now() + ms;
      return sendUntil(() => performance.now() >= end);
    },
    async during(attack) {
      let isOver = false;
      const attacked = attack().finally(() => {
        isOver = true;
      });
      const [report] = await Promise.all([sendUntil(() => isOver), attacked]);
      return report;
    },
    close,
  };
}

function reportOf(answers: readonly Outcome[]): VictimReport {
  const statuses: Record<number, number> = {};
  for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
  const latencies = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  return { statuses, latencies, p99: latencies[Math.ceil(latencies.length * 0.99) - 1] ?? 0 };
}
