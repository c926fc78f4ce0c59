import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Capability, offer } from '../component/capability.ts';
import { FIRST_TOKENS } from '../component/first-tokens.ts';
import type { ServiceConfig } from '../config/config.ts';
import { callDaemon, NoDaemonError } from '../control/client.ts';
import type { StoreCommandName } from '../control/store-commands.ts';
import type { Service } from '../engine/service.ts';
import { isInUse } from '../model/errors.ts';
import { STORE } from '../store/store.ts';
import { BOOTSTRAP } from '../tenancy/bootstrap.ts';
import { type ConfigOptions, loadOrFail, withConfigOptions } from './configuration.ts';
import { BETWEEN_TRIES_MS, controlDirectoryOf, TRIES } from './daemon.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { firstTokens, sayFirstKey } from './first-key.ts';
import type { Terminal } from './terminal.ts';

/** Options of every command about a store. */
export type StoreOptions = ConfigOptions & { readonly store?: string; readonly json?: boolean };

export function withStoreOptions(command: Command): Command {
  return withConfigOptions(command)
    .option('--store <id>', 'the store extension; required if there are several')
    .option('--json', 'print JSON');
}

/** How a command that may take long is repeated until its answer is complete. */
export type CommandRepeats = {
  /** Arguments for a daemon, in addition to those of the command. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly isComplete: (answer: unknown) => boolean;
};

const NO_REPEATS: CommandRepeats = { args: {}, isComplete: () => true };

/** Runs a command in the running daemon, so that its caches are current, or else in the store itself. */
export async function carryOut(
  command: StoreCommandName,
  args: Readonly<Record<string, unknown>>,
  options: StoreOptions,
  terminal: Terminal,
  repeats = NO_REPEATS,
): Promise<unknown> {
  const config = await loadOrFail(options, terminal);
  const store = storeOf(config, options.store);
  const directory = controlDirectoryOf(config, options, terminal);
  return askOrOpen(
    async () => {
      for (;;) {
        const answer = await callDaemon(directory, command, { store, ...args, ...repeats.args });
        if (repeats.isComplete(answer)) return answer;
      }
    },
    () => inStore({ config, id: store, options, terminal }, command, args),
  );
}

/** Asks the daemon, or else opens the store. A daemon that starts or stops has the store and answers no command: both are tried again. */
async function askOrOpen<Answer>(
  ask: () => Promise<Answer>,
  open: () => Promise<Answer>,
): Promise<Answer> {
  for (let left = TRIES; ; left--) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof NoDaemonError)) throw error;
    }
    try {
      return await open();
    } catch (error) {
      if (!isInUse(error) || left === 0) throw error;
    }
    await pause(BETWEEN_TRIES_MS);
  }
}

/** The fields that are not undefined, for the arguments of a command. */
export function given(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Prints the answer as JSON with `--json`, else as `text` renders it. */
export function print<T>(
  answer: T,
  options: StoreOptions,
  terminal: Terminal,
  text: (answer: T) => string,
): void {
  terminal.out(options.json === true ? JSON.stringify(answer, null, 2) : text(answer));
}

function storeOf(config: ServiceConfig, wanted: string | undefined): string {
  const stores = config.service.extensions.filter((id) =>
    config.extensions.get(id)?.factory.provides.includes(STORE),
  );
  if (wanted !== undefined && stores.includes(wanted)) return wanted;
  const [only] = stores;
  if (wanted === undefined && only !== undefined && stores.length === 1) return only;
  if (stores.length === 0) throw new CommandError(EXIT.failed, 'the configuration has no store');
  throw new CommandError(EXIT.usage, `several stores: name one with --store: ${stores.join(', ')}`);
}

type StorePlace = {
  readonly config: ServiceConfig;
  readonly id: string;
  readonly options: ConfigOptions;
  readonly terminal: Terminal;
};

/** Starts only the store's extension, runs the command, and shuts the extension down. */
async function inStore(
  place: StorePlace,
  command: StoreCommandName,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const opened = await openStore(place);
  try {
    return await opened.run(command, args);
  } finally {
    await opened.close();
  }
}

/** Commands that run one after another. */
export type StoreSession = {
  run(command: StoreCommandName, args: Readonly<Record<string, unknown>>): Promise<unknown>;
  close(): Promise<void>;
};

/** Runs each command in the running daemon, or else in the store itself, which stays open. */
export async function openStoreSession(
  options: StoreOptions,
  terminal: Terminal,
): Promise<StoreSession> {
  const config = await loadOrFail(options, terminal);
  const id = storeOf(config, options.store);
  const directory = controlDirectoryOf(config, options, terminal);
  let opened: StoreSession | undefined;
  return {
    async run(command, args) {
      if (opened !== undefined) return opened.run(command, args);
      return askOrOpen(
        () => callDaemon(directory, command, { store: id, ...args }),
        async () => {
          opened = await openStore({ config, id, options, terminal });
          return opened.run(command, args);
        },
      );
    },
    close: async () => opened?.close(),
  };
}

/** Starts only the store's extension. */
async function openStore({ config, id, options, terminal }: StorePlace): Promise<StoreSession> {
  // A command that a running daemon answers does not load the engine.
  const [{ createService }, { STORE_COMMANDS }, { storeWork }] = await Promise.all([
    import('../engine/service.ts'),
    import('../control/store-commands.ts'),
    import('../control/store-work.ts'),
  ]);
  const service = await createService({
    config: onlyExtension(config, id),
    offers: [offer(FIRST_TOKENS, firstTokens({ config, options, terminal }))],
  });
  await service.start();
  const close = async (): Promise<void> => {
    await service.shutdown();
  };
  try {
    const store = offerOf(service, STORE, id);
    if (store === undefined)
      throw new CommandError(EXIT.failed, `the store ${id} cannot be opened`);
    const first = offerOf(service, BOOTSTRAP, id)?.first;
    const firsts = first === undefined ? [] : [{ ...first, store: id }];
    await sayFirstKey(firsts, { config, options, terminal });
    const work = storeWork(store, service.projectReads);
    return { run: (command, args) => STORE_COMMANDS[command](work, args), close };
  } catch (error) {
    await close();
    throw error;
  }
}

function offerOf<T>(service: Service, wanted: Capability<T>, id: string): T | undefined {
  return service.offers(wanted).find((each) => each.id === id)?.offer;
}

/** The configuration of a service of this extension alone. */
export function onlyExtension(config: ServiceConfig, id: string): ServiceConfig {
  const extension = config.extensions.get(id);
  return {
    receivers: new Map(),
    processors: new Map(),
    exporters: new Map(),
    connectors: new Map(),
    extensions: new Map(extension === undefined ? [] : [[id, extension]]),
    service: {
      ...config.service,
      extensions: [id],
      pipelines: [],
      telemetry: {
        logs: { ...config.service.telemetry.logs, level: 'warn', encoding: 'console' },
        metrics: { ...config.service.telemetry.metrics, level: 'none' },
      },
    },
  };
}
