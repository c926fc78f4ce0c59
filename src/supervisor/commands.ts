import { oldestFirst, type ShownDeadLetter } from '../control/dead-letters.ts';
import type { PipelineReports } from '../control/pipelines.ts';
import { ControlError, type ControlRequest } from '../control/protocol.ts';
import type { ControlHandler } from '../control/server.ts';
import { WorkerGone, type WorkerHandle } from './worker-handle.ts';

/** The parts of a supervisor that control commands use. */
export type CommandTargets = {
  readonly workers: readonly WorkerHandle[];
  /** Reloads the configuration of all workers. */
  reload(): Promise<unknown>;
};

/**
 * Runs control commands over all workers. Each worker has queues of its own, named `worker-1/otlphttp` here.
 * The processes share a store, so the first running worker answers commands about it.
 */
export function createWorkersHandler({ workers, reload }: CommandTargets): ControlHandler {
  return async (request) => {
    if (request.command === 'reload') return reload();
    if (request.command === 'pipelines.show') return pipelines(workers, request);
    if (request.command.startsWith('dead_letters.')) return deadLetters(workers, request);
    // The admin API runs in the first worker, and other commands are about the shared store.
    const first = request.command === 'ui.link' ? firstOf(workers) : running(workers)[0];
    if (first === undefined) throw nobody();
    return ask(first, request);
  };
}

/** The reports of all running workers. */
async function pipelines(
  workers: readonly WorkerHandle[],
  request: ControlRequest,
): Promise<PipelineReports> {
  const answers = await Promise.all(running(workers).map((worker) => ask(worker, request)));
  return { processes: answers.flatMap((answer) => (answer as PipelineReports).processes) };
}

async function deadLetters(workers: readonly WorkerHandle[], request: ControlRequest) {
  const { queue, ...rest } = request.arguments;
  const meant = named(queue);
  if (meant !== undefined) {
    const worker = workers.find(({ index }) => index === meant.worker);
    if (worker === undefined) throw unknownQueue(`there is no queue ${String(queue)}`);
    const args = { ...rest, queue: meant.queue };
    return shown(await ask(worker, { ...request, arguments: args }), worker);
  }
  const { ids, after } = rest;
  if (request.command === 'dead_letters.list' && after === undefined)
    return listAll(workers, request);
  if (ids === 'all') return changeAll(workers, request);
  throw unknownQueue(
    'several workers have queues: name one with --queue, as the list shows it, e.g. worker-1/otlphttp',
  );
}

/** `worker-2/otlphttp` */
function named(queue: unknown): { worker: number; queue: string } | undefined {
  const [, worker, name] = /^worker-([1-9]\d*)\/(.+)$/.exec(String(queue ?? '')) ?? [];
  return worker === undefined || name === undefined
    ? undefined
    : { worker: Number(worker), queue: name };
}

type Letter = Pick<ShownDeadLetter, 'queue' | 'id' | 'batch_id' | 'failed_at'>;

/** Removes repeated dead letters: every worker lists the letters of a shared queue. */
async function listAll(workers: readonly WorkerHandle[], request: ControlRequest) {
  const letters = new Map<string, Letter>();
  for (const worker of running(workers)) {
    const answer = (await ask(worker, request)) as { dead_letters: Letter[] };
    for (const letter of answer.dead_letters) {
      const key = `${letter.queue} ${letter.id} ${letter.batch_id}`;
      if (!letters.has(key)) letters.set(key, shown(letter, worker));
    }
  }
  const { limit } = request.arguments;
  const all = oldestFirst([...letters.values()]);
  return { dead_letters: typeof limit === 'number' ? all.slice(0, limit) : all };
}

/** The sum of `{"replayed": n}` or `{"dropped": n}` over the workers. */
async function changeAll(workers: readonly WorkerHandle[], request: ControlRequest) {
  const sums: Record<string, number> = {};
  for (const worker of running(workers)) {
    const answer = (await ask(worker, request)) as Record<string, number>;
    for (const [what, count] of Object.entries(answer)) sums[what] = (sums[what] ?? 0) + count;
  }
  return sums;
}

/** Adds the worker to the queue's name of a dead letter, or of each one of a list; returns other values unchanged. */
function shown<T>(answer: T, worker: WorkerHandle): T {
  const { queue, dead_letters: letters } = (answer ?? {}) as {
    queue?: unknown;
    dead_letters?: readonly unknown[];
  };
  if (letters !== undefined) {
    return { ...answer, dead_letters: letters.map((letter) => shown(letter, worker)) };
  }
  if (typeof queue !== 'string') return answer;
  return { ...answer, queue: `worker-${worker.index}/${queue}` };
}

/** The first worker, if it runs. */
function firstOf(workers: readonly WorkerHandle[]): WorkerHandle | undefined {
  return running(workers).find(({ index }) => index === 1);
}

/** All running workers. Throws when there is none: an empty answer would look like empty queues. */
function running(workers: readonly WorkerHandle[]): readonly WorkerHandle[] {
  const found = workers.filter(({ state }) => state === 'ready');
  if (found.length === 0) throw nobody();
  return found;
}

async function ask(worker: WorkerHandle, request: ControlRequest): Promise<unknown> {
  try {
    return await worker.ask({ kind: 'control', request });
  } catch (error) {
    if (!(error instanceof WorkerGone)) throw error;
    throw new ControlError('worker_down', `${error.message}. Retry when it has restarted`);
  }
}

function nobody(): ControlError {
  return new ControlError('worker_down', 'no worker is running at the moment. Retry');
}

function unknownQueue(message: string): ControlError {
  return new ControlError('unknown_queue', message);
}
