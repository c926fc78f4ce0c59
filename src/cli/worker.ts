import { availableParallelism } from 'node:os';
import type { Logger, Worker } from '../component/component.ts';
import type { FileTexts } from '../config/file-texts.ts';
import { ControlError, type ControlResponse, responseOf } from '../control/protocol.ts';
import type { ControlHandler } from '../control/server.ts';
import type { Service } from '../engine/service.ts';
import {
  type FromWorker,
  HEALTH_EVERY_MS,
  type ToWorker,
  type WorkerQuestion,
} from '../supervisor/messages.ts';
import { type ServiceLogger, withFields } from '../telemetry/logger.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { shownOf } from './welcome.ts';

/** The environment variable with a worker's number: `2/4`. Only the supervisor sets it. */
export const WORKER_VARIABLE = 'TRACECTL_WORKER';

/** The channel of a worker to its supervisor. */
export type WorkerChannel = {
  readonly worker: Worker;
  /** Resolves with an exit status when the supervisor has ended. */
  readonly gone: Promise<number>;
  /** The configuration files, as the supervisor has read them. */
  readonly files: Promise<FileTexts>;
  labelled(logger: ServiceLogger): ServiceLogger;
  /** Asks the supervisor to run a command over all workers. */
  readonly command: ControlHandler;
  /** Reports that the worker is ready, then its health at an interval, and answers questions. */
  serve(service: Service, work: WorkerWork): void;
  close(): void;
};

/** Questions of the supervisor that the daemon of a worker answers. */
type WorkerWork = {
  reload(files: FileTexts): Promise<unknown>;
  readonly control: ControlHandler;
  readonly logger: Logger;
};

/** The number of worker processes. `auto` is one on platforms without SO_REUSEPORT. */
export function workerCount(workers: number | 'auto', platform: string = process.platform): number {
  if (workers !== 'auto') return workers;
  return ['linux', 'freebsd'].includes(platform) ? availableParallelism() : 1;
}

/** Opens the channel to the supervisor; undefined in a process that is not a worker. */
export function openChannel(
  env: Readonly<Record<string, string | undefined>>,
): WorkerChannel | undefined {
  const text = env[WORKER_VARIABLE];
  if (text === undefined) return undefined;
  const [, index, count] = /^([1-9]\d{0,3})\/([1-9]\d{0,3})$/.exec(text) ?? [];
  if (index === undefined || count === undefined || process.send === undefined) {
    const message = `${WORKER_VARIABLE} is reserved for the workers of a daemon. Unset it`;
    throw new CommandError(EXIT.usage, message);
  }
  return createChannel({ index: Number(index), count: Number(count) });
}

function createChannel(worker: Worker): WorkerChannel {
  const gone = Promise.withResolvers<number>();
  let telling: NodeJS.Timeout | undefined;
  const files = Promise.withResolvers<FileTexts>();
  let answer = (_message: Asked): void => {};
  const commands = createCommands();
  const onMessage = (message: ToWorker): void => {
    if (message.type === 'configuration') files.resolve(message.files);
    else if (message.type === 'answer') commands.answered(message.id, message.response);
    else answer(message);
  };
  const onDisconnect = (): void => gone.resolve(EXIT.failed);
  process.on('message', onMessage).on('disconnect', onDisconnect);
  // The supervisor may have ended while this process was loading.
  if (!process.connected) onDisconnect();
  return {
    worker,
    gone: gone.promise,
    files: files.promise,
    command: commands.run,
    labelled: (logger) => ({
      ...withFields(logger, { worker: String(worker.index) }),
      setLevel: logger.setLevel,
      flush: logger.flush,
    }),
    serve(service, work) {
      answer = ({ id, question }) => {
        void responseOf(() => answerTo(question, service, work), work.logger).then((response) =>
          tell({ type: 'answer', id, response }),
        );
      };
      const tellHealth = (): void => tell({ type: 'health', report: service.health(true) });
      tellHealth();
      tell({ type: 'ready', shown: shownOf(service) });
      telling = setInterval(tellHealth, HEALTH_EVERY_MS);
      telling.unref();
    },
    close() {
      clearInterval(telling);
      process.off('message', onMessage).off('disconnect', onDisconnect);
    },
  };
}

/** Commands that wait for the supervisor's answer. If the supervisor ends, so does this process. */
function createCommands() {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  const run: ControlHandler = (request) => {
    const id = ++lastId;
    const answer = Promise.withResolvers<unknown>();
    waiting.set(id, answer);
    tell({ type: 'command', id, request });
    return answer.promise;
  };
  return {
    run,
    answered(id: number, response: ControlResponse) {
      const answer = waiting.get(id);
      waiting.delete(id);
      if ('result' in response) return answer?.resolve(response.result);
      answer?.reject(new ControlError(response.error.code, response.error.message));
    },
  };
}

type Asked = Extract<ToWorker, { readonly type: 'ask' }>;

async function answerTo(
  question: WorkerQuestion,
  service: Service,
  { reload, control }: WorkerWork,
): Promise<unknown> {
  switch (question.kind) {
    case 'metrics':
      return service.metricsText();
    case 'reload':
      return reload(question.files);
    case 'control':
      return control(question.request);
  }
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
