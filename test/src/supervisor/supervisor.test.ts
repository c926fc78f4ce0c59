import fc from 'fast-check';
import t, { type Test } from 'tap';
import { createHealth } from '../../../src/component/health.ts';
import { healthOfAll } from '../../../src/supervisor/health.ts';
import type { FirstInStore } from '../../../src/supervisor/messages.ts';
import { mergePages } from '../../../src/supervisor/metric-pages.ts';
import { Restarts } from '../../../src/supervisor/restarts.ts';
import { createSupervisor, WorkersFailed } from '../../../src/supervisor/supervisor.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger, recordingMetrics } from '../../helper/settings.ts';
import { type FakeProcess, fakeProcess } from '../../helper/worker-process.ts';

const CRASH = { signal: 'SIGKILL' };
const MINUTE = 60_000;
const FIRST: FirstInStore = {
  project: {
    ...{ id: 'proj_a', organizationId: 'org_a', name: 'default', retainedTraces: 0, createdAt: 0 },
    retention: { days: 1 },
    limits: { eventsPerMonth: null, bytesPerHour: null },
  },
  key: {
    ...{ id: 'key_a', projectId: 'proj_a', organizationId: 'org_a', name: 'default', prefix: '' },
    ...{ permissions: [], createdAt: 0, lastUsedAt: null, revokedAt: null },
  },
  token: 'a token',
  isRecovered: false,
  store: 'sqlite',
};
/** Lets pending answers reach their callers. */
const soon = () => new Promise((resolve) => setImmediate(resolve));

function supervised(count: number) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  const processes: FakeProcess[][] = Array.from({ length: count }, () => []);
  const supervisor = createSupervisor({
    ...{ count, clock, logger, metrics },
    spawn(index) {
      const started = fakeProcess();
      processes[index - 1]?.push(started);
      return started;
    },
  });
  /** The process that a worker is at the moment. */
  function now(index: number): FakeProcess {
    const found = processes[index - 1]?.at(-1);
    if (found === undefined) throw new Error(`worker ${index} was never started`);
    return found;
  }
  const starts = (index: number): number => processes[index - 1]?.length ?? 0;
  return { supervisor, clock, logger, metrics, now, starts };
}

async function running(count: number) {
  const all = supervised(count);
  const started = all.supervisor.start();
  for (let index = 1; index <= count; index++) all.now(index).ready();
  await started;
  return all;
}

t.test('the restart delay doubles up to ten seconds, until the worker ran for a minute', (t) => {
  const restarts = new Restarts();
  const waits = Array.from({ length: 8 }, () => restarts.ended(1_000));
  t.same(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
  t.equal(restarts.inRow, 8);
  t.equal(restarts.ended(MINUTE), 200);
  t.equal(restarts.inRow, 1);
  t.end();
});

t.test('start resolves when all workers are ready', async (t) => {
  const { supervisor, now, metrics } = supervised(2);
  let isStarted = false;
  const started = supervisor.start().then(() => {
    isStarted = true;
  });
  now(2).ready();
  await null;
  t.notOk(isStarted);
  t.equal(supervisor.phase, 'starting');
  t.equal(metrics.value('tracectl_worker_up', { worker: '1' }), 0);
  now(1).ready();
  await started;
  t.equal(supervisor.phase, 'running');
  t.equal(metrics.value('tracectl_worker_up', { worker: '1' }), 1);
  t.same(
    supervisor.shown().endpoints,
    [{ url: 'http://127.0.0.1:4318', routes: ['POST /v1/traces'] }],
    'shared endpoints are listed once',
  );
});

t.test('the first key is that of the worker that created the store', async (t) => {
  const { supervisor, now } = await running(3);
  t.match(supervisor.shown(), { firsts: [], hasStore: false });
  const shown = { endpoints: [], managed: [], hasStore: true };
  const tell = (index: number, isRecovered: boolean) =>
    now(index).tell({ type: 'ready', shown: { ...shown, firsts: [{ ...FIRST, isRecovered }] } });
  tell(2, true);
  t.equal(supervisor.shown().hasStore, true, 'a worker has a store');
  const shownFirsts = () => supervisor.shown().firsts.map(({ isRecovered }) => isRecovered);
  t.same(shownFirsts(), [true]);
  tell(3, false);
  t.same(shownFirsts(), [false], 'worker 2 found the token of worker 3');
});

t.test('restarts a worker that ended, after its delay, while the other runs on', async (t) => {
  const { supervisor, clock, metrics, logger, now, starts } = await running(2);
  now(1).end(CRASH);
  t.equal(supervisor.workers[0]?.state, 'down');
  t.match(logger.lines.at(-1), { level: 'error', fields: { worker: 1, signal: 'SIGKILL' } });
  clock.advance(199);
  t.equal(starts(1), 1);
  clock.advance(1);
  t.equal(starts(1), 2);
  t.equal(supervisor.workers[0]?.state, 'starting');
  now(1).ready();
  t.equal(supervisor.workers[0]?.state, 'ready');
  t.equal(metrics.value('tracectl_worker_restarts_total', { worker: '1' }), 1);
  t.same([starts(2), now(2).signals.length], [1, 0]);
  for (const code of [0, 1, 78]) {
    now(1).end({ code });
    clock.advance(10_000);
  }
  t.equal(starts(1), 5, 'restarts after any status, and every time');
});

t.test('kills and restarts a worker that does not report for a minute', async (t) => {
  const { supervisor, clock, logger, now, starts } = await running(2);
  for (let seconds = 0; seconds < 60; seconds++) {
    clock.advance(1_000);
    now(2).ready();
  }
  t.same([now(1).signals, now(2).signals], [[], []]);
  clock.advance(5_000);
  t.same([now(1).signals, now(2).signals], [['SIGKILL'], []]);
  t.match(logger.lines.at(-1), { level: 'error', fields: { worker: 1 } });
  now(1).end(CRASH);
  clock.advance(200);
  t.equal(starts(1), 2);
  clock.advance(MINUTE);
  t.same(now(1).signals, [], 'a start may take longer');
  now(1).ready();
  clock.advance(MINUTE);
  t.same(now(1).signals, [], 'the minute begins with the first report');
  void supervisor.stop(10 * MINUTE);
  clock.advance(MINUTE);
  t.same(now(1).signals, ['SIGTERM'], 'a stop has a deadline of its own');
});

t.test('a worker that exits before it is ready stops all, with its exit status', async (t) => {
  const { supervisor, now, clock, starts } = supervised(2);
  const started = supervisor.start();
  now(1).ready();
  now(2).end({ code: 78 });
  const error = await started.catch((failure: unknown) => failure);
  if (!(error instanceof WorkersFailed)) throw new Error('it should not start');
  t.equal(error.status, 78);
  t.match(error.message, 'worker 2 cannot start (status 78)');
  clock.advance(MINUTE);
  t.equal(starts(2), 1);
});

for (const exit of [CRASH, { code: 70 }, { code: 75 }]) {
  t.test(
    `gives up after five crashes in a row at the start (${JSON.stringify(exit)})`,
    async (t) => {
      const { supervisor, now, clock, starts } = supervised(2);
      const started = supervisor.start();
      started.catch(() => {});
      now(1).ready();
      for (let crash = 0; crash < 5; crash++) {
        now(2).end(exit);
        clock.advance(10_000);
      }
      await t.rejects(started, WorkersFailed);
      t.equal(starts(2), 5);
    },
  );
}

t.test('restarts a worker that crashed once at the start', async (t) => {
  const { supervisor, now, clock } = supervised(2);
  const started = supervisor.start();
  now(1).ready();
  now(2).end(CRASH);
  clock.advance(200);
  now(2).ready();
  await t.resolves(started);
});

t.test('a stop asks all workers, waits for all, and restarts none', async (t) => {
  const { supervisor, now, clock, starts } = await running(3);
  now(3).end(CRASH);
  const stopped = supervisor.stop(1_000);
  t.same([now(1).signals, now(2).signals, now(3).signals], [['SIGTERM'], ['SIGTERM'], []]);
  now(1).end({ code: 0 });
  now(2).end({ code: 0 });
  t.equal(await stopped, true);
  t.equal(clock.pending(), 0);
  t.same([starts(1), starts(2), starts(3)], [1, 1, 1]);
});

t.test('kills a worker that does not stop in time, and reports an unclean stop', async (t) => {
  const { supervisor, now, clock, logger } = await running(2);
  const stopped = supervisor.stop(1_000);
  now(1).end({ code: 0 });
  clock.advance(1_000);
  t.same(now(2).signals, ['SIGTERM', 'SIGKILL']);
  t.same(now(1).signals, ['SIGTERM']);
  t.match(logger.lines.at(-1), { level: 'error', fields: { worker: 2 } });
  now(2).end(CRASH);
  t.equal(await stopped, false);
});

t.test('a worker that exits with an error on the stop makes the stop unclean', async (t) => {
  const { supervisor, now } = await running(2);
  const stopped = supervisor.stop(1_000);
  now(1).end({ code: 1 });
  now(2).end({ code: 0 });
  t.equal(await stopped, false);
});

t.test('a stop while workers are loading is clean', async (t) => {
  const { supervisor, now } = supervised(2);
  void supervisor.start();
  const stopped = supervisor.stop(1_000);
  now(1).end({ signal: 'SIGTERM' });
  now(2).end({ code: 0 });
  t.equal(await stopped, true);
});

t.test('collects metrics from the workers that answer', async (t) => {
  const { supervisor, now, clock } = await running(3);
  now(2).end(CRASH);
  const pages = supervisor.metricPages();
  now(1).answer('a 1\n');
  await soon();
  clock.advance(5_000);
  t.same(await pages, [{ worker: '1', text: 'a 1\n' }], 'the third worker does not answer');
  const again = supervisor.metricPages();
  now(1).answer('a 2\n');
  now(3).end(CRASH);
  t.same(await again, [{ worker: '1', text: 'a 2\n' }], 'the third worker ends');
});

t.test('ignores an answer that arrives after its question timed out', async (t) => {
  const { supervisor, now, clock } = await running(1);
  const late = supervisor.metricPages();
  clock.advance(5_000);
  t.same(await late, []);
  const pages = supervisor.metricPages();
  now(1).answer('old 1\n');
  now(1).answer('new 1\n');
  t.match(await pages, [{ text: 'new 1\n' }]);
});

t.test('answers a command of a worker, unless its process has ended since', async (t) => {
  const { now } = await running(2);
  const [asking, other] = [now(1), now(2)];
  const request = { command: 'traces.read', arguments: {} };
  asking.tell({ type: 'command', id: 1, request });
  await soon();
  asking.answer('found');
  await soon();
  t.same(asking.answers, [{ type: 'answer', id: 1, response: { result: 'found' } }]);
  other.tell({ type: 'command', id: 2, request });
  await soon();
  other.end(CRASH);
  asking.answer('found');
  await soon();
  t.same(other.answers, []);
});

t.test('merges metric pages, with one description for each metric', (t) => {
  const page = (value: number): string =>
    [
      '# HELP tracectl_a_total Text.',
      '# TYPE tracectl_a_total counter',
      `tracectl_a_total{receiver="otlp",pipeline="traces"} ${value}`,
      '# HELP tracectl_b_seconds Text.',
      '# TYPE tracectl_b_seconds histogram',
      `tracectl_b_seconds_bucket{le="+Inf"} ${value}`,
      `tracectl_b_seconds_sum ${value}`,
      '',
    ].join('\n');
  t.equal(
    mergePages([
      { worker: '1', text: page(1) },
      { worker: '2', text: page(2) },
      { worker: 'supervisor', text: '# HELP up Text.\n# TYPE up gauge\nup{worker="1"} 1\n' },
    ]),
    [
      '# HELP tracectl_a_total Text.',
      '# TYPE tracectl_a_total counter',
      'tracectl_a_total{worker="1",receiver="otlp",pipeline="traces"} 1',
      'tracectl_a_total{worker="2",receiver="otlp",pipeline="traces"} 2',
      '# HELP tracectl_b_seconds Text.',
      '# TYPE tracectl_b_seconds histogram',
      'tracectl_b_seconds_bucket{worker="1",le="+Inf"} 1',
      'tracectl_b_seconds_sum{worker="1"} 1',
      'tracectl_b_seconds_bucket{worker="2",le="+Inf"} 2',
      'tracectl_b_seconds_sum{worker="2"} 2',
      '# HELP up Text.',
      '# TYPE up gauge',
      'up{worker="1"} 1',
      '',
    ].join('\n'),
  );
  t.equal(mergePages([]), '');
  t.end();
});

t.test('merging keeps every sample, with any label values', (t) => {
  const value = fc.string().map((text) => JSON.stringify(text));
  const sample = fc
    .tuple(fc.constantFrom('a_total', 'b'), fc.constantFrom('', '{x=', '{y="1",x='), value)
    .map(([name, label, text]) => (label === '' ? `${name} 1` : `${name}${label}${text}} 1`));
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.array(fc.array(sample), { maxLength: 4 }), (pages) => {
        const merged = mergePages(
          pages.map((samples, index) => ({
            worker: String(index),
            text: samples
              .map((line) => `# TYPE ${line.split(/[{ ]/)[0]} gauge\n${line}\n`)
              .join(''),
          })),
        );
        const lines = merged.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
        const wanted = pages.flatMap((samples, index) =>
          samples.map((line) => {
            const [, name = '', rest = ''] = /^(\w+)(.*)$/s.exec(line) ?? [];
            const label = `worker="${index}"`;
            return rest.startsWith('{')
              ? `${name}{${label},${rest.slice(1)}`
              : `${name}{${label}}${rest}`;
          }),
        );
        return JSON.stringify(lines.sort()) === JSON.stringify(wanted.sort());
      }),
    ),
  );
  t.end();
});

t.test('health combines the reports of the running workers', async (t) => {
  const { supervisor, now, clock } = await running(2);
  const own = createHealth(clock);
  own.enter('running');
  const health = healthOfAll(own, supervisor);
  t.match(health.report(false), { ready: true, status: 'running', components: [] });
  t.match(partOf(t, 'worker-2'), { ready: true, details: { restarts: 0 } });

  now(2).ready([{ id: 'otlphttp', healthy: false, message: 'It waits.' }]);
  t.match(health.report(false), {
    ready: true,
    status: 'degraded',
    components: [{ id: 'worker-2/otlphttp', healthy: false }],
  });
  now(2).ready([{ id: 'file_storage', ready: false, message: 'The disk is full.' }]);
  t.match(health.report(false), { ready: false, status: 'degraded' }, 'clients would come to it');
  now(2).end(CRASH);
  t.match(health.report(false), { ready: true, status: 'degraded' }, 'clients come to the other');
  t.match(partOf(t, 'worker-2'), { healthy: false, message: 'It is down.' });
  clock.advance(200);
  t.match(partOf(t, 'worker-2'), { message: 'It is starting.' });
  now(2).ready();
  clock.advance(9_999);
  now(2).ready();
  clock.advance(1);
  t.match(partOf(t, 'worker-1'), { ready: false, message: 'The worker does not report.' });
  t.match(health.report(false), { ready: false, status: 'degraded' });
  now(1).end(CRASH);
  now(2).end(CRASH);
  t.match(health.report(false), { ready: false }, 'no worker is running');
  void supervisor.stop(1_000);
  t.match(health.report(false), { ready: false, status: 'stopping' });

  function partOf(t: Test, id: string) {
    const part = health.report(true).components.find((component) => component.id === id);
    if (part === undefined) t.fail(`${id} is not shown`);
    return part;
  }
});
