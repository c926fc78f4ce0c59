import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { LASTING } from './attacks/attacks.ts';
import { eventually, oneRequestEach, send } from './client.ts';
import { type Entry, startLoad } from './journal.ts';
import { describeStep, planOf, type Step } from './soak-plan.ts';
import { cluster, embedded, type System, type Victim } from './soak-systems.ts';

/**
 * Attacks, freezes and kills real systems beside a well-behaved client of another project: the embedded daemon for a
 * third of the time, then two gateways and two workers with Redis and Postgres. When everything is back, it checks:
 *
 *   acknowledged items are stored once, as sent, and counted once; every batch is delivered
 *   no valid request was refused, except by a gateway that was frozen or killed, or whose servers were
 *   every process runs, and is ready
 *
 * A printed seed determines the attacks, the faults and their times; the interleaving depends on the machine.
 *
 *   node test/e2e/soak.ts --seconds 180 [--seed 7]
 */

/** Within this time after a fault, requests may still be refused for it. */
const RECOVERY_MS = 10_000;
const READY_MS = 60_000;

/** A time in which requests to some gateways may fail. */
type Outage = { readonly from: number; to: number; harms(base: string): boolean };

type Soaked = { readonly requests: number; readonly problems: readonly string[] };

async function soak(
  start: (t: { teardown(close: () => Promise<void> | void): void }) => Promise<System>,
  seconds: number,
  seed: number,
  progress: (text: string) => void,
): Promise<Soaked> {
  const closing: (() => Promise<void> | void)[] = [];
  try {
    const system = await start({ teardown: (close) => void closing.unshift(close) });
    const victims = system.victims.map(({ name }) => name);
    const plan = planOf(seed, seconds, Object.keys(LASTING), victims);
    const journal: Entry[] = [];
    const outages: Outage[] = [];
    const load = startLoad(system.target, journal, {
      ...{ clients: 3, open: [503], restMs: () => 50 },
    });
    const ended: string[] = [];
    try {
      for (const step of plan) {
        progress(`${system.name}: ${describeStep(step)}`);
        await carryOut(step, system, outages);
        ended.push(...(await revived(system)));
      }
      await sleep(RECOVERY_MS);
    } finally {
      await load.stop();
    }
    const problems = [...ended, ...(await notReady(system)), ...unexcused(journal, outages)];
    problems.push(...(await system.problems(journal)));
    if (!journal.some(({ state }) => state === 'acknowledged')) {
      problems.push('nothing was acknowledged');
    }
    return { requests: journal.length, problems: problems.map((one) => `${system.name}: ${one}`) };
  } finally {
    for (const close of closing) await close();
  }
}

async function carryOut(step: Step, system: System, outages: Outage[]): Promise<void> {
  const { attacked } = system;
  const ends = await Promise.all(
    step.attacks.flatMap(({ name, at }) => {
      const [attack, aim] = [LASTING[name], attacked[at % attacked.length]];
      return attack === undefined || aim === undefined ? [] : [attack(aim)];
    }),
  );
  try {
    await sleep(step.lead);
    const { fault } = step;
    const victim = system.victims.find(({ name }) => name === fault?.victim);
    if (fault !== undefined && victim !== undefined) {
      const outage = { from: Date.now(), to: Number.POSITIVE_INFINITY, harms: victim.harms };
      outages.push(outage);
      await (fault.kind === 'freeze' ? frozen(victim, fault.ms) : killed(victim, fault.ms));
      outage.to = Date.now() + RECOVERY_MS;
    }
    await sleep(step.hold);
  } finally {
    for (const end of ends) end();
  }
  await sleep(step.rest);
}

async function frozen(victim: Victim, ms: number): Promise<void> {
  victim.freeze();
  try {
    await sleep(ms);
  } finally {
    victim.thaw();
  }
}

async function killed(victim: Victim, ms: number): Promise<void> {
  await victim.kill();
  await sleep(ms);
  await victim.start();
}

/** Starts the daemons that ended without being killed, and reports them. */
async function revived({ daemons }: System): Promise<string[]> {
  const ended = daemons.filter(({ daemon }) => !daemon.running());
  return Promise.all(
    ended.map(async ({ name, daemon }) => {
      const said = daemon.stderr().slice(-1_000);
      await daemon.start();
      return `${name} ended, and nothing killed it: ${said}`;
    }),
  );
}

async function notReady({ daemons }: System): Promise<string[]> {
  const problems = daemons.map(({ name, daemon }) =>
    eventually(
      () => send(daemon.health, { path: '/readyz?verbose', agent: oneRequestEach }),
      ({ status }) => status === 200,
      'readiness',
      READY_MS,
    ).then(
      () => [],
      (error: unknown) => [`${name} is not ready: ${String(error)}`],
    ),
  );
  return (await Promise.all(problems)).flat();
}

/** Valid requests without an answer, or with 503, while nothing that they need was away. */
function unexcused(journal: readonly Entry[], outages: readonly Outage[]): string[] {
  return journal
    .filter(({ state, items }) => state === 'sent' && items.length > 0)
    .filter(
      ({ base, sentAt, answeredAt }) =>
        !outages.some(({ from, to, harms }) => harms(base) && sentAt < to && answeredAt > from),
    )
    .map(
      ({ format, traceId, status, sentAt, answeredAt }) =>
        `${format} ${traceId}: answered ${status} at ${new Date(answeredAt).toISOString()}, ` +
        `after ${answeredAt - sentAt} ms, with nothing away`,
    );
}

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '180' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
  },
});
const print = (text: string) =>
  void process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
print(`seed ${values.seed}`);
const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
const one = await soak(embedded, seconds / 3, seed, print);
const other = await soak(cluster, (seconds * 2) / 3, seed + 1, print);
const problems = [...one.problems, ...other.problems];
for (const problem of problems.slice(0, 50)) print(problem);
const verdict = problems.length === 0 ? 'ok' : `${problems.length} problems`;
print(`seed ${values.seed}: ${one.requests + other.requests} requests, ${verdict}`);
process.exitCode = problems.length === 0 ? 0 : 1;
