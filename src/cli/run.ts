import type { Command } from 'commander';
import { offer } from '../component/capability.ts';
import { systemClock } from '../component/clock.ts';
import { FIRST_TOKENS } from '../component/first-tokens.ts';
import { PROCESS_END } from '../component/process-end.ts';
import type { ServiceConfig } from '../config/config.ts';
import { type FileTexts, keepingReader, readerOf } from '../config/file-texts.ts';
import { ADMIN_API } from '../control/admin-api.ts';
import { createControlHandler } from '../control/commands.ts';
import { CONTROL, pipelineReport } from '../control/pipelines.ts';
import { removeFromQueues } from '../control/project-removal.ts';
import { ControlError } from '../control/protocol.ts';
import { type ControlHandler, type ControlServer, startControlServer } from '../control/server.ts';
import { BrokenReloadError, createService, type Service } from '../engine/service.ts';
import { createQueues, QUEUE_REGISTRY, type Queues } from '../queue/registry.ts';
import { STORE } from '../store/store.ts';
import { workerPart } from '../supervisor/parts.ts';
import { createLogger, type ServiceLogger } from '../telemetry/logger.ts';
import { collectGarbage } from '../thread/idle-memory.ts';
import {
  heapUsedBytes,
  processCpuMicros,
  startTrimming,
  trimProcess,
  unexplainedBytes,
} from '../thread/trim.ts';
import { type ConfigOptions, loadAgain, loadOrFail, withConfigOptions } from './configuration.ts';
import { makeControlDirectory } from './daemon.ts';
import { EXIT } from './exit-status.ts';
import { firstTokens, sayFirstKey, showFirstKey } from './first-key.ts';
import { keepsCode, tuneHeapFor } from './heap.ts';
import { packageVersion } from './package-root.ts';
import { type Ending, watchProcess } from './process-events.ts';
import type { Terminal } from './terminal.ts';
import { shownOf, welcome } from './welcome.ts';
import { openChannel, type WorkerChannel, workerCount } from './worker.ts';

export function addRun(program: Command, terminal: Terminal, end: (status: number) => void) {
  withConfigOptions(program.command('run', { isDefault: false }))
    .description('run the daemon until SIGTERM or SIGINT; SIGHUP reloads the configuration')
    .option(
      '--print-key',
      'print the key of a new store also if stdout is not a terminal (default: a file of mode 0600)',
    )
    .action(async (options: ConfigOptions) => end(await run(options, terminal)));
}

/** Time after `service.shutdown_timeout` in which a stop ends in order; less than the supervisor gives a worker. */
const PATIENCE_MS = 2_000;

/**
 *   load ─┬─ one worker ──▶ create ──▶ start ──▶ control socket ──▶ … SIGHUP: reload … ──▶ SIGTERM: stop
 *         └─ several ──▶ supervise.ts, which runs this again in each of them
 */
async function run(options: ConfigOptions, terminal: Terminal): Promise<number> {
  const channel = openChannel(terminal.env);
  if (channel !== undefined) return runWorker(options, terminal, channel);
  const { read, texts } = keepingReader();
  const config = await loadOrFail({ ...options, read }, terminal, { warns: true });
  const count = workerCount(config.service.workers);
  if (count > 1) {
    const { supervise } = await import('./supervise.ts');
    return supervise({ config, files: texts, count, options, terminal });
  }
  return serve({ config, options, terminal, channel: undefined });
}

/** Runs one of several workers, with the configuration files as the supervisor has read them. */
async function runWorker(
  options: ConfigOptions,
  terminal: Terminal,
  channel: WorkerChannel,
): Promise<number> {
  const files = await Promise.race([channel.files, channel.gone]);
  if (typeof files === 'number') return files;
  const config = await loadOrFail({ ...options, read: readerOf(files) }, terminal);
  return serve({ config, options, terminal, channel });
}

type Serving = {
  readonly config: ServiceConfig;
  readonly options: ConfigOptions;
  readonly terminal: Terminal;
  /** The channel to the supervisor; undefined if there is only one process. */
  readonly channel: WorkerChannel | undefined;
};

async function serve({ config, options, terminal, channel }: Serving): Promise<number> {
  const ownLogger = createLogger(config.service.telemetry.logs);
  const logger = channel?.labelled(ownLogger) ?? ownLogger;
  const part = partOf(config, channel);
  tuneHeapFor(part);
  const queues = createQueues();
  const events = watchProcess(logger);
  const endTrimming = startTrimming({
    after: systemClock.after,
    ...{ unexplained: unexplainedBytes, cpuMicros: processCpuMicros },
    ...{ heapUsed: heapUsedBytes, collect: collectGarbage, keepsCode, trim: trimProcess },
  });
  let handler: ControlHandler = notStarted;
  try {
    const service = await createService({
      config: part,
      logger,
      version: packageVersion(),
      offers: [
        offer(QUEUE_REGISTRY, queues),
        offer(FIRST_TOKENS, firstTokens({ config, options, terminal })),
        offer(PROCESS_END, { end: (reason) => events.fail(EXIT[reason]) }),
        offer(CONTROL, (request) => (channel?.command ?? handler)(request)),
      ],
      ...(channel === undefined ? {} : { worker: channel.worker }),
    });
    const daemon = new Daemon({ service, config, queues, logger, options, terminal, channel });
    handler = daemon.handler();
    return await daemon.run(events);
  } finally {
    endTrimming();
    events.close();
    channel?.close();
    await logger.flush();
  }
}

async function notStarted(): Promise<never> {
  throw new ControlError('starting', 'the daemon is starting. Retry');
}

function partOf(config: ServiceConfig, channel: WorkerChannel | undefined): ServiceConfig {
  return channel === undefined ? config : workerPart(config, channel.worker);
}

type Parts = Serving & {
  readonly service: Service;
  readonly queues: Queues;
  readonly logger: ServiceLogger;
};

class Daemon {
  readonly #parts: Parts;
  #control: ControlServer | undefined;
  #endWatch: (() => void) | undefined;
  /** The newest reload. Each reload waits for the one before it. */
  #reloading: Promise<unknown> = Promise.resolve();
  #shutdownTimeout: number;
  /** The user or the supervisor knows of the start, and of the key of a new store. */
  #isAnnounced = false;
  /** Resolves with an exit status when a reload and its rollback both failed. */
  readonly #broken = Promise.withResolvers<number>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#shutdownTimeout = parts.config.service.shutdown_timeout;
  }

  /**
   * Resolves with the exit status of the process, at the latest a time after a signal or the end of the supervisor, whatever is in progress
   * then.
   */
  async run(events: Ending): Promise<number> {
    const { channel } = this.#parts;
    let cancel = (): void => {};
    const ended = Promise.race([
      ...[events.ended, this.#broken.promise],
      ...(channel === undefined ? [] : [channel.gone]),
    ]);
    const late = ended.then((status) => {
      const { promise, resolve } = Promise.withResolvers<number>();
      cancel = systemClock.after(this.#shutdownTimeout + PATIENCE_MS, () => {
        this.#parts.logger.error({}, 'Daemon did not stop in time; stopping at once');
        resolve(status === EXIT.ok ? EXIT.failed : status);
      });
      return promise;
    });
    try {
      return await Promise.race([this.#run(events, ended), events.cutShort, late]);
    } finally {
      cancel();
      if (!this.#isAnnounced) await this.#sayFirstKey();
    }
  }

  async #run(events: Ending, ended: Promise<number>): Promise<number> {
    const { service, options, logger, channel } = this.#parts;
    // A signal lets the start go on, because the daemon can then stop in order.
    await service.start();
    this.#watchDeletions();
    if (channel === undefined) {
      // The welcome names commands.
      await this.#openControl();
      await this.#welcome();
    } else {
      const reload = (files: FileTexts) => this.#reload({ ...options, read: readerOf(files) });
      channel.serve(service, { reload, control: this.handler(), logger });
      this.#isAnnounced = true;
    }
    // A terminal sends SIGHUP to every process; the supervisor reloads its workers in order.
    events.onReload(channel === undefined ? () => this.#reload().catch(() => {}) : () => {});
    const status = await ended;
    logger.info({}, 'Stopping');
    return this.#stop(status);
  }

  async #sayFirstKey(): Promise<void> {
    await sayFirstKey(shownOf(this.#parts.service).firsts, this.#parts);
  }

  async #welcome(): Promise<void> {
    const { service, terminal } = this.#parts;
    const shown = shownOf(service);
    const link = terminal.isOutShown === true ? await this.#link() : undefined;
    const metrics = service.metricsAddress();
    const facts = { link, metrics, version: packageVersion() };
    await showFirstKey(shown.firsts, this.#parts, (keys) => {
      terminal.out(welcome(shown, { ...facts, keys }));
    });
    this.#isAnnounced = true;
  }

  /** A link to sign in with. The start does not fail if the store cannot keep its code now. */
  async #link(): Promise<string | undefined> {
    const { service, logger } = this.#parts;
    const [api] = service.offers(ADMIN_API);
    try {
      return await api?.offer.signInLink({ actor: 'cli', address: null });
    } catch (error) {
      logger.warn({ err: error }, 'Link to the web UI could not be made');
      return undefined;
    }
  }

  /** Subscribes to deletions of projects. Runs again after each reload, because the stores may be others. */
  #watchDeletions(): void {
    const { service, queues, logger } = this.#parts;
    this.#endWatch?.();
    const stores = service.offers(STORE).map(({ offer }) => offer);
    this.#endWatch = removeFromQueues(stores, queues.all, logger);
    for (const { erasures } of stores) erasures.useQueues(() => queues.all.values());
  }

  async #stop(status: number): Promise<number> {
    await this.#control?.close();
    const report = await this.#parts.service.shutdown();
    return report.leftBehind.length > 0 && status === EXIT.ok ? EXIT.failed : status;
  }

  async #openControl(): Promise<void> {
    const { config, options, terminal, logger } = this.#parts;
    try {
      const directory = makeControlDirectory(config, options, terminal);
      this.#control = await startControlServer(directory, this.handler(), logger);
    } catch (error) {
      logger.warn(
        { err: error },
        'Control socket could not be opened; commands cannot reach this daemon',
      );
    }
  }

  handler(): ControlHandler {
    const { service, queues } = this.#parts;
    return createControlHandler({
      stores: () => new Map(service.offers(STORE).map(({ id, offer }) => [id, offer])),
      queues: () => queues.all,
      reads: service.projectReads,
      adminApis: () => service.offers(ADMIN_API).map(({ offer }) => offer),
      service: () => ({ version: packageVersion(), endpoints: service.endpoints() }),
      pipelines: () =>
        pipelineReport({ flow: service.flow(), queues: queues.all, health: service.health(true) }),
      reload: () => this.#reload(),
    });
  }

  #reload(options = this.#parts.options): Promise<unknown> {
    const next = this.#reloading.catch(() => {}).then(() => this.#reloadNow(options));
    this.#reloading = next;
    return next.catch((error: unknown) => {
      if (error instanceof BrokenReloadError) this.#broken.resolve(EXIT.failed);
      throw error;
    });
  }

  /** An invalid configuration leaves the running graph unchanged. */
  async #reloadNow(options: ConfigOptions): Promise<unknown> {
    const { terminal, logger, service, channel } = this.#parts;
    const config = await loadAgain(options, terminal, logger, service);
    const part = partOf(config, channel);
    tuneHeapFor(part);
    await service.reload(part);
    this.#shutdownTimeout = config.service.shutdown_timeout;
    this.#watchDeletions();
    logger.setLevel(config.service.telemetry.logs.level);
    return { reloaded: true };
  }
}
