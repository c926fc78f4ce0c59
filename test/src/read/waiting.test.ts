import t from 'tap';
import type { TraceWait } from '../../../src/read/waiting.ts';
import { waitForTrace } from '../../../src/read/waiting.ts';
import type { StoredTrace } from '../../../src/store/store.ts';
import { fakeClock } from '../../helper/clock.ts';
import { aTrace } from '../../helper/fake-traces.ts';
import { until } from '../../helper/until.ts';

/** A store whose trace and backlog can be changed, and a wait of five seconds. */
function waiting(waits: number | null = null) {
  const clock = fakeClock();
  const client = new AbortController();
  let trace: StoredTrace | undefined;
  let backlog = waits;
  let turns = 0;
  let back = 0;
  const asked: unknown[] = [];
  const wait = {
    store: {
      traces: { getTrace: async () => trace },
      backlog: {
        async newest(_project: string, upTo?: string | number) {
          asked.push(upTo);
          return backlog;
        },
      },
    },
    projectId: 'p',
    traceId: 't',
    ms: 5000,
    clock: { ...clock, now: () => clock.now() - back },
    read: {
      signal: client.signal,
      async turn<T>(work: () => Promise<T>) {
        turns++;
        try {
          return await work();
        } finally {
          turns--;
        }
      },
    },
  } as unknown as TraceWait;
  let outcome: string | undefined;
  const done = waitForTrace(wait).then(
    () => {
      outcome = 'ended';
    },
    (error: unknown) => {
      outcome = String(error);
    },
  );
  return {
    ...{ clock, client, asked, done },
    outcome: () => outcome,
    turns: () => turns,
    stores(made: StoredTrace | undefined, left: number | null) {
      [trace, backlog] = [made, left];
    },
    setBack(ms: number) {
      back += ms;
    },
    /** Passes time in small steps, with all work in between. */
    async pass(ms: number) {
      for (let at = 0; at < ms; at += 50) {
        clock.advance(50);
        await new Promise((resolve) => setImmediate(resolve));
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

t.test('a wait ends when the trace is there and earlier entries are processed', async (t) => {
  const wait = waiting(7);
  await wait.pass(300);
  t.equal(wait.outcome(), undefined);
  wait.stores(aTrace(), 7);
  await wait.pass(600);
  t.equal(wait.outcome(), undefined, 'the trace is there, and an entry waits');
  wait.stores(aTrace(), null);
  await wait.pass(300);
  t.equal(wait.outcome(), 'ended');
  t.ok(
    wait.asked.every((upTo) => upTo === undefined || upTo === 7),
    'later entries do not count',
  );
});

t.test('a wait ends after its time, and not before', async (t) => {
  const wait = waiting();
  await wait.pass(4950);
  t.equal(wait.outcome(), undefined);
  t.equal(wait.turns(), 0, 'it holds no turn');
  await wait.pass(50);
  t.equal(wait.outcome(), 'ended');
});

t.test('a clock that is set back does not prolong a wait', async (t) => {
  const wait = waiting();
  await wait.pass(1000);
  wait.setBack(86_400_000);
  await wait.pass(5500);
  t.equal(wait.outcome(), 'ended');
});

t.test('a client that goes away ends its wait at once', async (t) => {
  const wait = waiting();
  await wait.pass(100);
  wait.client.abort(new Error('the client is gone'));
  await until(() => wait.outcome() !== undefined);
  t.match(wait.outcome(), 'the client is gone');
  await wait.done;
});
