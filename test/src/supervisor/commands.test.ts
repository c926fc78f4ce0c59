import t from 'tap';
import { createWorkersHandler } from '../../../src/supervisor/commands.ts';
import { reloadWorkers } from '../../../src/supervisor/reload.ts';
import { WorkerHandle } from '../../../src/supervisor/worker-handle.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { type FakeProcess, fakeProcess } from '../../helper/worker-process.ts';

/** Workers that are ready, except those that are named. */
function workersOf(count: number, down: readonly number[] = []) {
  const processes: FakeProcess[] = [];
  const workers = Array.from({ length: count }, (_, i) => {
    const index = i + 1;
    const started = fakeProcess();
    const worker = new WorkerHandle({
      ...{ index, clock: fakeClock(), logger: recordingLogger(), onReady: () => {} },
      onCommand: async () => null,
      spawn: () => started,
      onEnd: () => true,
    });
    processes.push(started);
    worker.start();
    if (!down.includes(index)) started.ready();
    return worker;
  });
  const handle = createWorkersHandler({ workers, reload: async () => 'reloaded' });
  const command = (name: string, args: Record<string, unknown> = {}) =>
    handle({ command: name, arguments: args });
  return { workers, processes, command };
}

const at = (processes: readonly FakeProcess[], worker: number): FakeProcess => {
  const found = processes[worker - 1];
  if (found === undefined) throw new Error(`there is no worker ${worker}`);
  return found;
};

/** Lets what was asked come to the workers. */
const soon = () => new Promise((resolve) => setImmediate(resolve));

t.test('lists the dead letters of all workers, each with its worker', async (t) => {
  const { processes, command } = workersOf(3, [2]);
  const listed = command('dead_letters.list', { limit: 3 });
  at(processes, 1).answer({ dead_letters: [letter('otlphttp', 1, 'a'), letter('shared', 7, 's')] });
  await soon();
  const older = letter('otlphttp', 1, 'b', 0);
  at(processes, 3).answer({ dead_letters: [older, letter('shared', 7, 's')] });
  t.same(await listed, {
    dead_letters: [
      { ...older, queue: 'worker-3/otlphttp' },
      letter('worker-1/otlphttp', 1, 'a'),
      letter('worker-1/shared', 7, 's'),
    ],
  });
  t.equal(at(processes, 2).questions.length, 0);
});

t.test('lists a further page of dead letters for one named queue only', async (t) => {
  const { processes, command } = workersOf(2);
  await t.rejects(command('dead_letters.list', { after: 4 }), { code: 'unknown_queue' });
  const listed = command('dead_letters.list', { after: 4, queue: 'worker-2/otlphttp' });
  at(processes, 2).answer({ dead_letters: [letter('otlphttp', 5, 'x')] });
  t.same(await listed, { dead_letters: [letter('worker-2/otlphttp', 5, 'x')] });
  t.equal(at(processes, 1).questions.length, 0);
});

function letter(queue: string, id: number, batch: string, failedAt = 1000) {
  return { queue, id, batch_id: batch, failed_at: new Date(failedAt).toISOString() };
}

t.test('sends a command about a dead letter to the worker that holds it', async (t) => {
  const { processes, command } = workersOf(2);
  const shown = command('dead_letters.show', { id: 4, queue: 'worker-2/otlphttp' });
  t.same(at(processes, 2).questions, [
    {
      kind: 'control',
      request: { command: 'dead_letters.show', arguments: { id: 4, queue: 'otlphttp' } },
    },
  ]);
  at(processes, 2).answer(letter('otlphttp', 4, 'x'));
  t.same(await shown, letter('worker-2/otlphttp', 4, 'x'));
  await t.rejects(command('dead_letters.replay', { ids: [4] }), { code: 'unknown_queue' });
  await t.rejects(command('dead_letters.replay', { ids: [4], queue: 'worker-3/otlphttp' }), {
    code: 'unknown_queue',
  });
  t.ok(processes.every(({ questions }) => questions.length === 0));
});

t.test('replays the dead letters of all workers and sums the counts', async (t) => {
  const { processes, command } = workersOf(2);
  const replayed = command('dead_letters.replay', { ids: 'all' });
  at(processes, 1).answer({ replayed: 2 });
  await soon();
  at(processes, 2).answer({ replayed: 3 });
  t.same(await replayed, { replayed: 5 });
});

t.test('sends a command about a shared store to the first running worker', async (t) => {
  const { processes, command } = workersOf(2, [1]);
  const asked = command('keys.list', { store: 'postgres' });
  at(processes, 2).refuse('unknown_store', 'this daemon runs no store "postgres"');
  await t.rejects(asked, { code: 'unknown_store', message: /runs no store/ });
  t.equal(await command('reload'), 'reloaded');
});

t.test('a command fails with worker_down when no worker runs, or its worker ends', async (t) => {
  const nobody = workersOf(2, [1, 2]);
  for (const name of ['keys.list', 'dead_letters.list']) {
    await t.rejects(nobody.command(name), { code: 'worker_down' });
  }
  const { processes, command } = workersOf(1);
  const asked = command('keys.list');
  at(processes, 1).end({ signal: 'SIGKILL' });
  await t.rejects(asked, { code: 'worker_down', message: /Retry when it has restarted/ });
});

const NEW = { '/etc/tracectl.yaml': 'new' };
const OLD = { '/etc/tracectl.yaml': 'old' };

t.test('reloads the workers one after the other', async (t) => {
  const { workers, processes } = workersOf(4, [2, 3]);
  const logger = recordingLogger();
  const done = reloadWorkers(workers, NEW, OLD, logger);
  await soon();
  const asked = [{ kind: 'reload', files: NEW }];
  t.same(at(processes, 1).questions, asked);
  at(processes, 1).answer({ reloaded: true });
  await soon();
  at(processes, 2).ready();
  await soon();
  t.same(at(processes, 2).questions, asked, 'a starting worker is reloaded too');
  at(processes, 2).answer({ reloaded: true });
  at(processes, 3).end({ signal: 'SIGKILL' });
  t.same(at(processes, 4).questions, []);
  await soon();
  at(processes, 4).answer({ reloaded: true });
  await t.resolves(done);
  t.match(logger.lines, [{ level: 'warn', fields: { worker: 3 } }], 'the worker that is down');
});

t.test('all workers return to the configuration before when one refuses the new one', async (t) => {
  const { workers, processes } = workersOf(2);
  const done = reloadWorkers(workers, NEW, OLD, recordingLogger());
  done.catch(() => {});
  await soon();
  at(processes, 1).answer({ reloaded: true });
  await soon();
  at(processes, 2).refuse('internal', 'the port is taken');
  await soon();
  t.same(at(processes, 1).questions, [{ kind: 'reload', files: OLD }]);
  at(processes, 1).answer({ reloaded: true });
  await soon();
  at(processes, 2).answer({ reloaded: true });
  await t.rejects(done, /the port is taken/);
});
