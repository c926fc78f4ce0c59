import type { ComponentHealth } from '../../src/component/health.ts';
import type { FromWorker, ToWorker, WorkerQuestion } from '../../src/supervisor/messages.ts';
import type { Exit, WorkerProcess } from '../../src/supervisor/worker-handle.ts';

export type FakeProcess = WorkerProcess & {
  readonly signals: readonly string[];
  /** Answers to its commands. */
  readonly answers: readonly Extract<ToWorker, { type: 'answer' }>[];
  /** Questions without an answer. */
  readonly questions: readonly WorkerQuestion[];
  tell(message: FromWorker): void;
  /** Says that it is ready, and how it is. */
  ready(components?: readonly (ComponentHealth & { readonly id: string })[]): void;
  /** Answers what was asked first, as a worker does. */
  answer(result: unknown): void;
  refuse(code: string, message: string): void;
  end(exit: Partial<Exit>): void;
};

let lastPid = 1000;

/** A worker's process that does what a test says. */
export function fakeProcess(): FakeProcess {
  const signals: string[] = [];
  const asked: Extract<ToWorker, { type: 'ask' }>[] = [];
  const answers: Extract<ToWorker, { type: 'answer' }>[] = [];
  let onMessage = (_message: FromWorker): void => {};
  let onExit = (_exit: Exit): void => {};

  function respond(response: Extract<FromWorker, { type: 'answer' }>['response']): void {
    const first = asked.shift();
    if (first === undefined) throw new Error('nothing was asked');
    onMessage({ type: 'answer', id: first.id, response });
  }

  const started: FakeProcess = {
    pid: ++lastPid,
    signals,
    answers,
    get questions() {
      return asked.map(({ question }) => question);
    },
    send(message) {
      if (message.type === 'ask') asked.push(message);
      if (message.type === 'answer') answers.push(message);
    },
    onMessage(listener) {
      onMessage = listener;
    },
    onExit(listener) {
      onExit = listener;
    },
    kill: (signal) => void signals.push(signal),
    tell: (message) => onMessage(message),
    ready(components = []) {
      const isReady = components.every(({ ready }) => ready !== false);
      const report = { ready: isReady, status: 'running', upSince: 0, uptime: 0 } as const;
      onMessage({ type: 'health', report: { ...report, components } });
      const url = 'http://127.0.0.1:4318';
      onMessage({
        type: 'ready',
        shown: {
          endpoints: [{ url, routes: ['POST /v1/traces'] }],
          managed: [],
          firsts: [],
          hasStore: false,
        },
      });
    },
    answer: (result) => respond({ result }),
    refuse: (code, message) => respond({ error: { code, message } }),
    end: ({ code = null, signal = null }) => onExit({ code, signal }),
  };
  return started;
}
