import type { Clock, Logger } from '../component/component.ts';
import type { HealthReport } from '../component/health.ts';
import { ControlError, responseOf } from '../control/protocol.ts';
import type { ControlHandler } from '../control/server.ts';
import type { FromWorker, Shown, ToWorker, WorkerQuestion } from './messages.ts';
import { Restarts } from './restarts.ts';

/** A worker process as the supervisor uses it; src/cli spawns it, and tests pass their own. */
export type WorkerProcess = {
  readonly pid: number | undefined;
  send(message: ToWorker): void;
  onMessage(listener: (message: FromWorker) => void): void;
  /** Called once, when the process has ended or could not be started. */
  onExit(listener: (exit: Exit) => void): void;
  kill(signal: 'SIGTERM' | 'SIGKILL'): void;
};

export type Exit = { readonly code: number | null; readonly signal: string | null };

export type WorkerState = 'starting' | 'ready' | 'down' | 'stopped';

/** The process ended before it had answered. */
export class WorkerGone extends Error {
  override readonly name = 'WorkerGone';
}

type Options = {
  /** From 1. */
  readonly index: number;
  readonly spawn: () => WorkerProcess;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onReady: () => void;
  /** Runs a command of the worker over all workers. */
  readonly onCommand: ControlHandler;
  /** Decides whether the worker is restarted. */
  readonly onEnd: (exit: Exit, endsInRow: number) => boolean;
};

type Waiting = { resolve(answer: unknown): void; reject(error: Error): void };

/** One worker, over all processes that it runs as in turn. */
export class WorkerHandle {
  readonly index: number;
  readonly #options: Options;
  readonly #restarts = new Restarts();
  readonly #waiting = new Map<number, Waiting>();
  #process: WorkerProcess | undefined;
  #state: WorkerState = 'down';
  #startedAt = 0;
  #lastId = 0;
  #cancelRestart: (() => void) | undefined;
  #ended = Promise.withResolvers<Exit>();
  #settled = Promise.withResolvers<void>();
  #report: { readonly at: number; readonly report: HealthReport } | undefined;
  #shown: Shown | undefined;
  #starts = 0;
  /** Checks since the newest health report. */
  #silentChecks = 0;

  constructor(options: Options) {
    this.#options = options;
    this.index = options.index;
  }

  get state(): WorkerState {
    return this.#state;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Restarts so far. */
  get restarts(): number {
    return Math.max(0, this.#starts - 1);
  }

  /** The facts for the welcome text; undefined until the worker was ready. */
  get shown(): Shown | undefined {
    return this.#shown;
  }

  /** The newest health report and its age in milliseconds; undefined before the first one. */
  get report(): { readonly age: number; readonly report: HealthReport } | undefined {
    if (this.#report === undefined) return undefined;
    return {
      age: this.#options.clock.now() - this.#report.at,
      report: this.#report.report,
    };
  }

  /** Counts a check, and returns how many in a row came without a health report of the running process. */
  checkSilence(): number {
    if (this.#report === undefined) return 0;
    return this.#silentChecks++;
  }

  start(): void {
    const { spawn, clock } = this.#options;
    this.#state = 'starting';
    this.#startedAt = clock.now();
    this.#starts++;
    this.#ended = Promise.withResolvers();
    this.#settled = Promise.withResolvers();
    const started = spawn();
    this.#process = started;
    started.onMessage((message) => this.#told(message));
    started.onExit((exit) => this.#exited(exit));
  }

  /** Resolves when no start is in progress: the worker is ready, or its start failed. */
  async settled(): Promise<void> {
    if (this.#state === 'starting') await this.#settled.promise;
  }

  /** Rejects with `WorkerGone`, or with the `ControlError` that the worker answers. */
  async ask(question: WorkerQuestion): Promise<unknown> {
    const asked = this.#process;
    if (asked === undefined || this.#state !== 'ready') {
      throw new WorkerGone(`worker ${this.index} does not run`);
    }
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, { resolve, reject });
    asked.send({ type: 'ask', id, question });
    return promise;
  }

  /** Asks the worker to stop. Resolves when its process has ended. */
  async stop(): Promise<Exit> {
    this.#cancelRestart?.();
    const running = this.#process;
    this.#state = 'stopped';
    if (running === undefined) return { code: 0, signal: null };
    running.kill('SIGTERM');
    return this.#ended.promise;
  }

  kill(): void {
    this.#process?.kill('SIGKILL');
  }

  #told(message: FromWorker): void {
    switch (message.type) {
      case 'ready':
        this.#shown = message.shown;
        if (this.#state === 'starting') this.#state = 'ready';
        this.#settled.resolve();
        this.#options.onReady();
        return;
      case 'health':
        this.#report = { at: this.#options.clock.now(), report: message.report };
        this.#silentChecks = 0;
        return;
      case 'command':
        void this.#run(message);
        return;
      case 'answer': {
        const { id, response } = message;
        const waiting = this.#waiting.get(id);
        this.#waiting.delete(id);
        if ('result' in response) waiting?.resolve(response.result);
        else waiting?.reject(new ControlError(response.error.code, response.error.message));
      }
    }
  }

  async #run({ id, request }: Extract<FromWorker, { type: 'command' }>): Promise<void> {
    const asking = this.#process;
    const response = await responseOf(() => this.#options.onCommand(request), this.#options.logger);
    // The answer is for the process that asked.
    if (asking === this.#process) asking?.send({ type: 'answer', id, response });
  }

  #exited(exit: Exit): void {
    const { clock, logger, onEnd } = this.#options;
    this.#process = undefined;
    this.#report = undefined;
    for (const { reject } of this.#waiting.values()) {
      reject(new WorkerGone(`worker ${this.index} ended before it answered`));
    }
    this.#waiting.clear();
    this.#ended.resolve(exit);
    this.#settled.resolve();
    if (this.#state === 'stopped') return;
    this.#state = 'down';
    const delay = this.#restarts.ended(clock.now() - this.#startedAt);
    if (!onEnd(exit, this.#restarts.inRow)) return;
    logger.error(
      { worker: this.index, ...exit, restart_in_ms: delay },
      'Worker ended; restarting it',
    );
    this.#cancelRestart = clock.after(delay, () => this.start());
  }
}
