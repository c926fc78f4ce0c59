import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { offer } from '../component/capability.ts';
import { systemClock } from '../component/clock.ts';
import { HEALTH } from '../component/health.ts';
import type { ServiceConfig } from '../config/config.ts';
import { type FileTexts, keepingReader } from '../config/file-texts.ts';
import { ControlError } from '../control/protocol.ts';
import { type ControlHandler, type ControlServer, startControlServer } from '../control/server.ts';
import { BrokenReloadError, createService, type Service } from '../engine/service.ts';
import { createWorkersHandler } from '../supervisor/commands.ts';
import { healthOfAll } from '../supervisor/health.ts';
import { mergePages } from '../supervisor/metric-pages.ts';
import { supervisorPart } from '../supervisor/parts.ts';
import { addedEndpoints, assertFree, sharedEndpoints } from '../supervisor/ports.ts';
import { reloadWorkers } from '../supervisor/reload.ts';
import { createSupervisor, type Supervisor, WorkersFailed } from '../supervisor/supervisor.ts';
import type { WorkerProcess } from '../supervisor/worker-handle.ts';
import { createLogger, type ServiceLogger, withFields } from '../telemetry/logger.ts';
import { createMetrics, type ServiceMetrics } from '../telemetry/metrics.ts';
import { threadFile } from '../thread/thread.ts';
import { type ConfigOptions, filesOf, loadAgain } from './configuration.ts';
import { makeControlDirectory } from './daemon.ts';
import { EXIT } from './exit-status.ts';
import { sayFirstKey, showFirstKey } from './first-key.ts';
import { packageVersion } from './package-root.ts';
import { type Ending, watchProcess } from './process-events.ts';
import type { Terminal } from './terminal.ts';
import { welcome } from './welcome.ts';
import { WORKER_VARIABLE } from './worker.ts';

export type Supervision = {
  readonly config: ServiceConfig;
  /** The configuration files as read: a worker that starts later reads the same text. */
  readonly files: FileTexts;
  /** Number of workers, at least two. */
  readonly count: number;
  readonly options: ConfigOptions;
  readonly terminal: Terminal;
};

/** The supervisor's value of the `worker` label and log field. */
const SUPERVISOR = 'supervisor';
/** Time after `service.shutdown_timeout` before a worker is killed. */
const PATIENCE_MS = 5_000;
const FOR_ONE = 'a reload cannot change service.workers from several to one. Restart the daemon';
/** Keeps the process alive while all workers are down. */
const ALIVE_MS = 60_000;

/**
 * Runs the daemon in several processes of this same command, and no pipeline in this one:
 *
 *   this process ── metrics, health checks, control socket, signals
 *     ├─ worker 1 ─┐
 *     └─ worker 2 ─┴─ receivers on the same ports, each with queues of its own
 */
export async function supervise(supervision: Supervision): Promise<number> {
  const { config, files, count } = supervision;
  const current: Current = { config, files };
  await assertFree(sharedEndpoints(config));
  const logger = createLogger(config.service.telemetry.logs);
  const events = watchProcess(logger);
  const metrics = createMetrics(systemClock);
  const supervisor = createSupervisor({
    ...{ count, clock: systemClock, logger, metrics },
    spawn: (index) => spawnWorker(index, supervision, current.files),
  });
  const alive = setInterval(() => {}, ALIVE_MS);
  try {
    const service = await supervisorService(config, supervisor, metrics, logger);
    return await new SupervisedDaemon({ ...supervision, current, service, supervisor, logger }).run(
      events,
    );
  } finally {
    // No worker outlives a failed start.
    supervisor.kill();
    clearInterval(alive);
    events.close();
    await logger.flush();
  }
}

/** The service of the supervisor: the metrics page, and the extensions that run in the supervisor. */
async function supervisorService(
  config: ServiceConfig,
  supervisor: Supervisor,
  metrics: ServiceMetrics,
  logger: ServiceLogger,
): Promise<Service> {
  let own: Service | undefined;
  const health = healthOfAll(
    {
      report(verbose) {
        if (own === undefined) throw new Error('health was read before the service was created');
        return own.health(verbose);
      },
    },
    supervisor,
  );
  own = await createService({
    config: supervisorPart(config),
    // The label that the supervisor's metrics have beside those of the workers.
    logger: withFields(logger, { worker: SUPERVISOR }),
    version: packageVersion(),
    offers: [offer(HEALTH, health)],
    async metricsPage(page) {
      const worker = SUPERVISOR;
      const ofWorkers = supervisor.metricPages();
      const text = await metrics.text();
      return mergePages([{ worker, text: page }, { worker, text }, ...(await ofWorkers)]);
    },
  });
  return own;
}

/** The configuration in force; a reload replaces it. */
type Current = { config: ServiceConfig; files: FileTexts };

type Parts = Omit<Supervision, 'config' | 'files'> & {
  readonly current: Current;
  readonly service: Service;
  readonly supervisor: Supervisor;
  readonly logger: ServiceLogger;
};

class SupervisedDaemon {
  readonly #parts: Parts;
  #control: ControlServer | undefined;
  #reloading: Promise<unknown> = Promise.resolve();
  /** Resolves with an exit status when a reload and its rollback both failed here. */
  readonly #broken = Promise.withResolvers<number>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async run(events: Ending): Promise<number> {
    const { service, supervisor } = this.#parts;
    await service.start();
    const started = supervisor.start().then(
      () => undefined,
      (error: unknown) => this.#failed(error),
    );
    // A signal to stop can arrive before all workers are ready.
    const early = await Promise.race([started, events.ended, events.cutShort]);
    if (early !== undefined) {
      await this.#sayFirstKey();
      return this.#end(early, events);
    }
    await this.#welcome();
    events.onReload(() => this.#reload().catch(() => {}));
    return this.#end(await Promise.race([events.ended, this.#broken.promise]), events);
  }

  #failed(error: unknown): number {
    if (!(error instanceof WorkersFailed)) throw error;
    this.#parts.logger.error({ err: error }, 'Workers could not start; stopping');
    return error.status === EXIT.ok ? EXIT.failed : error.status;
  }

  /** A worker that is ready may have made the first key although another one cannot start. */
  async #sayFirstKey(): Promise<void> {
    await sayFirstKey(this.#parts.supervisor.shown().firsts, this.#keyPlace());
  }

  #keyPlace() {
    const { current, options, terminal } = this.#parts;
    return { config: current.config, options, terminal };
  }

  async #welcome(): Promise<void> {
    const { service, supervisor, options, terminal, logger, count, current } = this.#parts;
    const shown = supervisor.shown();
    const handler = createWorkersHandler({
      workers: supervisor.workers,
      reload: () => this.#reload(),
    });
    const link =
      terminal.isOutShown === true && shown.managed.length > 0
        ? await this.#link(handler)
        : undefined;
    const metrics = service.metricsAddress();
    const facts = { link, metrics, version: packageVersion(), workers: count };
    await showFirstKey(shown.firsts, this.#keyPlace(), (keys) => {
      terminal.out(welcome(shown, { ...facts, keys }));
    });
    try {
      const directory = makeControlDirectory(current.config, options, terminal);
      this.#control = await startControlServer(directory, handler, logger);
    } catch (error) {
      logger.warn(
        { err: error },
        'Control socket could not be opened; commands cannot reach this daemon',
      );
    }
  }

  async #link(handle: ControlHandler): Promise<string | undefined> {
    try {
      const answer = await handle({ command: 'ui.link', arguments: {} });
      return (answer as { link: string }).link;
    } catch (error) {
      this.#parts.logger.warn({ err: error }, 'Link to the web UI could not be made');
      return undefined;
    }
  }

  #end(status: number, { cutShort }: Ending): Promise<number> {
    this.#parts.logger.info({}, 'Stopping');
    return Promise.race([this.#stop(status), cutShort]);
  }

  async #stop(status: number): Promise<number> {
    const { supervisor, service, current } = this.#parts;
    await this.#control?.close();
    const patience = current.config.service.shutdown_timeout + PATIENCE_MS;
    const isClean = await supervisor.stop(patience);
    await service.shutdown();
    return isClean || status !== EXIT.ok ? status : EXIT.failed;
  }

  #reload(): Promise<unknown> {
    const next = this.#reloading.catch(() => {}).then(() => this.#reloadNow());
    this.#reloading = next;
    return next.catch((error: unknown) => {
      if (error instanceof BrokenReloadError) this.#broken.resolve(EXIT.failed);
      throw error;
    });
  }

  /** If any part of the new configuration fails, all processes keep the configuration before it. */
  async #reloadNow(): Promise<unknown> {
    const { options, terminal, logger, service, current } = this.#parts;
    const { read, texts } = keepingReader();
    const config = await loadAgain({ ...options, read }, terminal, logger, service);
    try {
      await this.#take({ config, files: texts });
    } catch (error) {
      service.reloadRefused();
      logger.error(
        { err: error },
        'New configuration could not be applied; the running one stays in force',
      );
      throw error;
    }
    logger.setLevel(current.config.service.telemetry.logs.level);
    return { reloaded: true };
  }

  async #take(next: Current): Promise<void> {
    const { service, supervisor, logger, current } = this.#parts;
    const former = { ...current };
    if (next.config.service.workers === 1) throw new ControlError('workers_are_fixed', FOR_ONE);
    await assertFree(addedEndpoints(former.config, next.config));
    await service.reload(supervisorPart(next.config));
    // A worker that starts during the reload gets the new configuration.
    Object.assign(current, next);
    try {
      await reloadWorkers(supervisor.workers, next.files, former.files, logger);
    } catch (error) {
      Object.assign(current, former);
      await service.reload(supervisorPart(former.config));
      throw error;
    }
  }
}

/** Forks the same command line, with the worker's number in the environment. */
function spawnWorker(
  index: number,
  { count, options, terminal }: Supervision,
  files: FileTexts,
): WorkerProcess {
  const entry = fileURLToPath(threadFile(import.meta.url, '../main'));
  const args = [
    'run',
    ...filesOf(options).flatMap((file) => ['--config', file]),
    ...options.set.flatMap((setting) => ['--set', setting]),
  ];
  const child = fork(entry, args, {
    cwd: terminal.cwd,
    env: { ...terminal.env, [WORKER_VARIABLE]: `${index}/${count}` },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const started = workerProcess(child);
  started.send({ type: 'configuration', files });
  return started;
}

function workerProcess(child: ChildProcess): WorkerProcess {
  return {
    pid: child.pid,
    send: (message) => void child.send(message, () => {}),
    onMessage: (listener) => void child.on('message', listener),
    onExit(listener) {
      child.once('exit', (code, signal) => listener({ code, signal }));
      // A process that could not be spawned emits no exit event.
      child.on('error', () => {
        if (child.pid === undefined) listener({ code: EXIT.failed, signal: null });
      });
    },
    kill: (signal) => void child.kill(signal),
  };
}
