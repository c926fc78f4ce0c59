import type { Command } from 'commander';
import type { ServiceConfig } from '../config/config.ts';
import { formatIssue } from '../config/load.ts';
import { createControlHandler } from '../control/commands.ts';
import { removeFromQueues } from '../control/project-removal.ts';
import { ControlError } from '../control/protocol.ts';
import { createQueues, QUEUE_REGISTRY, type Queues } from '../control/queues.ts';
import { type ControlServer, startControlServer } from '../control/server.ts';
import { BrokenReloadError, createService, type Service } from '../engine/service.ts';
import { STORE } from '../store/store.ts';
import { createLogger, type ServiceLogger } from '../telemetry/logger.ts';
import { type ConfigOptions, load, loadOrFail, withConfigOptions } from './configuration.ts';
import { dataDirectoryOf } from './daemon.ts';
import { EXIT } from './exit-status.ts';
import { tuneHeap } from './heap.ts';
import { packageVersion } from './package-root.ts';
import { type Ending, watchProcess } from './process-events.ts';
import type { Terminal } from './terminal.ts';
import { welcome } from './welcome.ts';

export function addRun(program: Command, terminal: Terminal, end: (status: number) => void) {
  withConfigOptions(program.command('run', { isDefault: false }))
    .description('run the daemon until SIGTERM or SIGINT; SIGHUP reads the configuration again')
    .action(async (options: ConfigOptions) => end(await run(options, terminal)));
}

/**
 *   load ──▶ create ──▶ start ──▶ control socket ──▶ … SIGHUP: reload … ──▶ SIGTERM: stop
 */
async function run(options: ConfigOptions, terminal: Terminal): Promise<number> {
  const config = loadOrFail(options, terminal, { warns: true });
  const logger = createLogger(config.service.telemetry.logs);
  const queues = createQueues();
  const events = watchProcess(logger);
  const leaveHeap = tuneHeap();
  try {
    const service = await createService({
      config,
      logger,
      version: packageVersion(),
      offers: [{ capability: QUEUE_REGISTRY, offer: queues }],
    });
    const daemon = new Daemon({ service, config, queues, logger, options, terminal });
    return await daemon.run(events);
  } finally {
    leaveHeap();
    events.close();
    logger.flush();
  }
}

type Parts = {
  readonly service: Service;
  readonly config: ServiceConfig;
  readonly queues: Queues;
  readonly logger: ServiceLogger;
  readonly options: ConfigOptions;
  readonly terminal: Terminal;
};

class Daemon {
  private readonly parts: Parts;
  private control: ControlServer | undefined;
  private endWatch: (() => void) | undefined;
  /** Reloads follow one another, however fast signals and commands come. */
  private reloading: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts) {
    this.parts = parts;
  }

  async run(events: Ending): Promise<number> {
    const { service, terminal, logger } = this.parts;
    const started = service.start();
    const cut = await Promise.race([started.then(() => undefined), events.cutShort]);
    if (cut !== undefined) return cut;
    terminal.out(welcome(service, packageVersion()));
    this.watchDeletions();
    await this.openControl();
    const broken = Promise.withResolvers<number>();
    events.onReload(() => {
      this.reload().catch((error: unknown) => {
        if (error instanceof BrokenReloadError) broken.resolve(EXIT.failed);
      });
    });
    const status = await Promise.race([events.ended, broken.promise]);
    logger.info({}, 'Stopping.');
    return Promise.race([this.stop(status), events.cutShort]);
  }

  /** Anew after each reload, which may have brought other stores. */
  private watchDeletions(): void {
    const { service, queues, logger } = this.parts;
    this.endWatch?.();
    const stores = service.offers(STORE).map(({ offer }) => offer);
    this.endWatch = removeFromQueues(stores, queues.all, logger);
  }

  private async stop(status: number): Promise<number> {
    await this.control?.close();
    const report = await this.parts.service.shutdown();
    return report.leftBehind.length > 0 && status === EXIT.ok ? EXIT.failed : status;
  }

  private async openControl(): Promise<void> {
    const { config, terminal, logger, service, queues } = this.parts;
    const directory = dataDirectoryOf(config, terminal.cwd);
    if (directory === undefined) return;
    const handler = createControlHandler({
      stores: () => new Map(service.offers(STORE).map(({ id, offer }) => [id, offer])),
      queues: () => queues.all,
      reload: () => this.reload(),
    });
    try {
      this.control = await startControlServer(directory, handler, logger);
    } catch (error) {
      logger.warn({ error }, 'No control socket: commands cannot reach this daemon.');
    }
  }

  private reload(): Promise<unknown> {
    const next = this.reloading.catch(() => {}).then(() => this.reloadNow());
    this.reloading = next;
    return next;
  }

  /** A file that is wrong leaves the running graph alone. */
  private async reloadNow(): Promise<unknown> {
    const { options, terminal, logger, service } = this.parts;
    const { config, issues } = load(options, terminal);
    for (const { severity, at, path, message } of issues) {
      const fields = { at, path, issue: message };
      if (severity === 'error') logger.error(fields, 'The configuration has an error.');
      else logger.warn(fields, 'The configuration has an oddity.');
    }
    if (config === undefined) {
      service.reloadRefused();
      logger.error({}, 'The configuration is wrong; the former one goes on running.');
      throw new ControlError('invalid_configuration', issues.map(formatIssue).join('\n'));
    }
    await service.reload(config);
    this.watchDeletions();
    logger.setLevel(config.service.telemetry.logs.level);
    return { reloaded: true };
  }
}
