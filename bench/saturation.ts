import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Daemon } from '../test/e2e/daemon.ts';
import { prepareDaemon, total } from '../test/e2e/daemon.ts';
import { BODY_HEADERS, bodyOf, lastTraceOf, SPANS_A_BODY } from './reading/data.ts';

/**
 * Prints how long after its acknowledgement a span is readable while one project sends more than the store can store: in the last
 * moments of the flood, when the backlog is longest, and for the last span. With `max_backlog_age` as config/embedded.yaml has it, and without.
 *   node bench/saturation.ts [--bodies 3000] [--connections 16]
 */
const { values: flags } = parseArgs({
  options: {
    bodies: { type: 'string', default: '3000' },
    connections: { type: 'string', default: '16' },
  },
});

const PAUSE_MS = 100;
const WATCH_EVERY_MS = 500;
const POLL_MS = 20;
const READABLE_MS = 180_000;

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const now = Date.now();
const count = Number(flags.bodies);
const bodies = Array.from({ length: count }, (_, number) => bodyOf(number, number / count, now));

print(
  `${count} bodies of ${SPANS_A_BODY} spans, ${flags.connections} connections that send without pause\n`,
);
print(
  '| `max_backlog_age` | spans stored | refused requests | readable after: p50 / most | the last span | target |',
);
print('|---|---|---|---|---|---|');
for (const age of ['1.2s', '0s']) {
  const daemon = await prepareDaemon({
    queue: { max_backlog_age: age },
    edit: ({ extensions }) => {
      const { sqlite } = extensions as { sqlite: Record<string, unknown> };
      sqlite.organization = { events_per_month: 'unlimited', bytes_per_hour: 'unlimited' };
    },
  });
  try {
    await daemon.start();
    print(await saturated(daemon, age));
  } finally {
    await daemon.remove();
  }
}

type Acknowledged = { readonly body: number; readonly at: number };

async function saturated(daemon: Daemon, age: string): Promise<string> {
  let sent = 0;
  let refused = 0;
  let last: Acknowledged | undefined;
  const client = async (): Promise<void> => {
    while (sent < bodies.length) {
      const body = sent++;
      while (!(await isAccepted(daemon, body))) {
        refused++;
        await sleep(PAUSE_MS);
      }
      last = { body, at: performance.now() };
    }
  };
  const flood = Promise.all(Array.from({ length: Number(flags.connections) }, client));
  const watched: Promise<number>[] = [];
  const watch = setInterval(() => {
    if (last !== undefined) watched.push(readableAfter(daemon, last));
  }, WATCH_EVERY_MS);
  await flood;
  clearInterval(watch);
  const lastMs = last === undefined ? 0 : await readableAfter(daemon, last);
  const delays = (await Promise.all(watched)).sort((a, b) => a - b);
  const [middle = 0, most = 0] = [delays[Math.floor(delays.length / 2)], delays.at(-1)];
  const stored = total(await daemon.metrics(), 'tracectl_exporter_sent_events_total');
  const seconds = (ms: number): string => (ms / 1000).toFixed(1);
  const limit = age === '0s' ? 'none' : age;
  return `| ${limit} | ${(stored || sent * SPANS_A_BODY).toLocaleString('en')} | ${refused} | ${seconds(middle)} / ${seconds(most)} s | ${seconds(lastMs)} s | ${age === '0s' ? '' : '≤ 5 s'} |`;
}

async function isAccepted(daemon: Daemon, body: number): Promise<boolean> {
  const { status, body: answer } = await daemon.call({
    method: 'POST',
    path: '/v1/traces',
    headers: BODY_HEADERS,
    body: bodies[body],
    timeoutMs: 60_000,
  });
  if (status === 200) return true;
  if (status === 429 || status === 503) return false;
  throw new Error(`${status} ${answer.toString()}`);
}

/** Milliseconds from the acknowledgement until the last trace of the body is readable. */
async function readableAfter(daemon: Daemon, { body, at }: Acknowledged): Promise<number> {
  while (performance.now() - at < READABLE_MS) {
    const { status } = await daemon.call({
      path: `/api/v1/traces/${lastTraceOf(body)}?limit=1`,
      timeoutMs: 60_000,
    });
    if (status === 200) return performance.now() - at;
    await sleep(POLL_MS);
  }
  throw new Error(`body ${body} is not readable after ${READABLE_MS} ms`);
}
