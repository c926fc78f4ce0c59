import { p99 } from '../compare.ts';
import { median } from '../median.ts';
import { BODY_HEADERS, bodyOf } from './data.ts';
import type { FilledStore } from './store.ts';

const READERS = 8;
const SENT = 400;
const SENDERS = 2;
/** Rounds of acknowledgements alone and beside readers, in turns: a p99 of one round varies by a third. */
const ROUNDS = 3;
const PAUSE_MS = 20;

/** Acknowledgements while readers list without pause, against alone. */
export async function measureBeside(
  store: FilledStore,
  print: (line: string) => void,
): Promise<void> {
  await acknowledgements(store);
  const [alone, beside]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(p99(await acknowledgements(store)));
    beside.push(p99(await whileReading(store, () => acknowledgements(store))));
  }
  const name = `acknowledgement p99 with ${READERS} readers, the median of ${ROUNDS} rounds`;
  print(row(name, median(beside), median(alone), '≤ 1.5'));
}

const PATHS = [
  '/traces',
  '/traces?q=model:gpt-4o',
  '/traces?q=nowhere-at-all',
  '/traces?limit=1000',
];

/** Does the work while readers list without pause. */
async function whileReading<T>(store: FilledStore, work: () => Promise<T>): Promise<T> {
  let isReading = true;
  const reader = async (n: number): Promise<void> => {
    while (isReading) {
      await store.call({ path: `/api/v1${PATHS[n % PATHS.length]}`, timeoutMs: 120_000 });
    }
  };
  const readers = Promise.all(Array.from({ length: READERS }, (_, n) => reader(n)));
  const done = await work();
  isReading = false;
  await readers;
  return done;
}

/** Erasing a user, with acknowledgements beside it. */
export async function measureErasure(
  store: FilledStore,
  print: (line: string) => void,
): Promise<void> {
  const { body } = await store.call({ path: '/api/v1/me' });
  const { project } = JSON.parse(body.toString()) as { project: { id: string } };
  const path = `/api/v1/projects/${project.id}/erasures`;
  const alone = p99(await acknowledgements(store));
  const cpu = store.cpuMs();
  const asked = await store.daemon.cli(
    'erase',
    '--project',
    project.id,
    '--yes',
    'user:user-0',
    '--json',
  );
  if (asked.code !== 0) {
    print(`| erasing a user | not served: ${path} | | ≤ 2 |`);
    return;
  }
  const beside = p99(await acknowledgements(store));
  print(row('acknowledgement p99 beside an erasure', beside, alone, '≤ 2'));
  print(
    `| erasing a user | ${((store.cpuMs() - cpu) / 1000).toFixed(1)} s CPU with the load | | |`,
  );
}

function row(name: string, beside: number, alone: number, target: string): string {
  const ratio = (beside / alone).toFixed(2);
  return `| ${name} | ${beside.toFixed(1)} ms, alone ${alone.toFixed(1)} ms: **${ratio}** | | ${target} |`;
}

let sent = 1_000_000_000;

/** Milliseconds of each, at a moderate rate. */
async function acknowledgements(store: FilledStore): Promise<number[]> {
  const latencies: number[] = [];
  const sender = async (): Promise<void> => {
    for (let i = 0; i < SENT / SENDERS; i++) {
      const { status, ms } = await store.call({
        method: 'POST',
        path: '/v1/traces',
        headers: BODY_HEADERS,
        body: bodyOf(sent++, 1, Date.now()),
      });
      if (status === 200) latencies.push(ms);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return latencies;
}
