/**
 * Fair turns at a store or a thread: a limited number of callers use it at once, and projects that wait are served in
 * rotation, so that a project with a thousand waiting calls delays another one by a turn or two.
 *
 *   take(project, signal, work) ── a place is free ─▶ work ─▶ the next project's first waiting call
 *          └─ waits ── aborted ─▶ rejects, and never runs
 */
export type Turns = {
  /** Runs the work when it is the project's turn. Rejects with the signal's reason if it is aborted before. */
  take<T>(projectId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  readonly running: number;
  readonly waiting: number;
};

/** The place of a turn stays taken until the rest that follows it has ended. Undefined: no rest. */
export type Rest = () => Promise<void> | undefined;

/**
 * `places`: turns that run at once. If there are several, a project gets all but one.
 * `begun` is called when a turn starts; the returned function is called when its work has ended.
 */
export function fairTurns(places: number, begun?: () => Rest): Turns {
  const perProject = Math.max(1, places - 1);
  const rotation = new Rotation();
  const runningOf = new Map<string, number>();
  let running = 0;

  function mayRun(projectId: string): boolean {
    return running < places && (runningOf.get(projectId) ?? 0) < perProject;
  }

  function begin(projectId: string): void {
    running++;
    runningOf.set(projectId, (runningOf.get(projectId) ?? 0) + 1);
  }

  function end(projectId: string): void {
    running--;
    const left = (runningOf.get(projectId) ?? 1) - 1;
    if (left > 0) runningOf.set(projectId, left);
    else runningOf.delete(projectId);
    const next = rotation.next(mayRun);
    if (next === undefined) return;
    begin(next.projectId);
    next.start();
  }

  function turnOf(projectId: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const abandon = (): void => {
      rotation.remove(entry);
      reject(signal.reason);
    };
    const start = (): void => {
      signal.removeEventListener('abort', abandon);
      resolve();
    };
    const entry: Waiting = { projectId, start };
    signal.addEventListener('abort', abandon, { once: true });
    rotation.add(entry);
    return promise;
  }

  return {
    async take(projectId, signal, work) {
      signal.throwIfAborted();
      if (mayRun(projectId)) begin(projectId);
      else await turnOf(projectId, signal);
      const rest = begun?.();
      try {
        return await work();
      } finally {
        const resting = rest?.();
        if (resting === undefined) end(projectId);
        else void resting.then(() => end(projectId));
      }
    },
    get running() {
      return running;
    },
    get waiting() {
      return rotation.size;
    },
  };
}

type Waiting = { readonly projectId: string; readonly start: () => void };

/** Those that wait, first come first served within a project. */
class Rotation {
  /** By project, in the order in which projects get a turn. */
  readonly #queues = new Map<string, Set<Waiting>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(entry: Waiting): void {
    const queue = this.#queues.get(entry.projectId) ?? new Set();
    this.#queues.set(entry.projectId, queue.add(entry));
    this.#size++;
  }

  remove(entry: Waiting): void {
    const queue = this.#queues.get(entry.projectId);
    if (queue?.delete(entry) !== true) return;
    this.#size--;
    if (queue.size === 0) this.#queues.delete(entry.projectId);
  }

  /** Takes the first entry of the first project that may run, and puts the project at the end. */
  next(mayRun: (projectId: string) => boolean): Waiting | undefined {
    for (const [projectId, queue] of this.#queues) {
      const [first] = queue;
      if (first === undefined || !mayRun(projectId)) continue;
      this.#queues.delete(projectId);
      this.#queues.set(projectId, queue);
      this.remove(first);
      return first;
    }
    return undefined;
  }
}
