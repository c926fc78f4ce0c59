import type { Command } from 'commander';
import type { Capability } from '../component/component.ts';
import type { ServiceConfig } from '../config/config.ts';
import { callDaemon, NoDaemonError } from '../control/client.ts';
import { KEY_COMMANDS, type KeyCommand, type ShownKey } from '../control/keys.ts';
import { createService, type Service } from '../engine/service.ts';
import { BOOTSTRAP } from '../store/bootstrap.ts';
import { STORE } from '../store/store.ts';
import { type ConfigOptions, loadOrFail, withConfigOptions } from './configuration.ts';
import { dataDirectoryOf } from './daemon.ts';
import { CommandError, EXIT } from './exit-status.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type Options = ConfigOptions & {
  readonly store?: string;
  readonly project?: string;
  readonly name?: string;
  readonly permission?: readonly string[];
  readonly json?: boolean;
};

export function addKeys(program: Command, terminal: Terminal) {
  const keys = program.command('keys').description('API keys, with or without a running daemon');
  const add = (name: string) =>
    withConfigOptions(keys.command(name))
      .option('--store <id>', 'the store extension, where there are several')
      .option('--json', 'print JSON');
  add('list')
    .description('list keys, revoked ones too; never their tokens')
    .option('--project <project>', 'of one project alone (its id)')
    .action((options: Options) => list(options, terminal));
  add('create')
    .description('create a key and print its token, this once')
    .option('--project <project>', 'id or name; needed where there are several')
    .option('--name <name>', 'a name to recognise it by')
    .option('--permission <permission...>', 'ingest:write, traces:read (default: both)')
    .action((options: Options) => create(options, terminal));
  add('revoke')
    .description('revoke a key; it stops working at once')
    .argument('<id>', 'the id, key_…')
    .action((id: string, options: Options) => revoke(id, options, terminal));
}

async function list(options: Options, terminal: Terminal): Promise<void> {
  const { project } = options;
  const answer = await carryOut(
    'keys.list',
    project === undefined ? {} : { project },
    options,
    terminal,
  );
  const { keys } = answer as { keys: ShownKey[] };
  if (options.json === true) {
    terminal.out(JSON.stringify({ keys }, null, 2));
    return;
  }
  const rows = keys.map((key) => [
    key.id,
    key.project_id,
    key.name,
    `${key.prefix}…`,
    key.permissions.join(','),
    key.last_used_at ?? '-',
    key.revoked_at === null ? 'active' : `revoked ${key.revoked_at}`,
  ]);
  terminal.out(
    table(['ID', 'PROJECT', 'NAME', 'PREFIX', 'PERMISSIONS', 'LAST USED', 'STATE'], rows),
  );
}

async function create(options: Options, terminal: Terminal): Promise<void> {
  const { project, name, permission } = options;
  const args = {
    ...(project === undefined ? {} : { project }),
    ...(name === undefined ? {} : { name }),
    ...(permission === undefined ? {} : { permissions: permission }),
  };
  const key = (await carryOut('keys.create', args, options, terminal)) as ShownKey & {
    token: string;
  };
  if (options.json === true) {
    terminal.out(JSON.stringify(key, null, 2));
    return;
  }
  terminal.out(key.token);
  terminal.err(`${key.id} of ${key.project_id}: keep the token, it is not shown again.`);
}

async function revoke(id: string, options: Options, terminal: Terminal): Promise<void> {
  const key = (await carryOut('keys.revoke', { id }, options, terminal)) as ShownKey;
  terminal.out(options.json === true ? JSON.stringify(key, null, 2) : `${key.id} is revoked.`);
}

/** By the running daemon where there is one, so that its caches know at once; else in the store itself. */
async function carryOut(
  command: KeyCommand,
  args: Readonly<Record<string, unknown>>,
  options: Options,
  terminal: Terminal,
): Promise<unknown> {
  const config = loadOrFail(options, terminal);
  const store = storeOf(config, options.store);
  const directory = dataDirectoryOf(config, terminal.cwd);
  if (directory !== undefined) {
    try {
      return await callDaemon(directory, command, { store, ...args });
    } catch (error) {
      if (!(error instanceof NoDaemonError)) throw error;
    }
  }
  return inStore(config, store, command, args, terminal);
}

function storeOf(config: ServiceConfig, wanted: string | undefined): string {
  const stores = config.service.extensions.filter((id) =>
    config.extensions.get(id)?.factory.provides.includes(STORE.name),
  );
  if (wanted !== undefined && stores.includes(wanted)) return wanted;
  const [only] = stores;
  if (wanted === undefined && only !== undefined && stores.length === 1) return only;
  if (stores.length === 0) throw new CommandError(EXIT.failed, 'this configuration has no store');
  throw new CommandError(EXIT.usage, `say which store with --store: ${stores.join(', ')}`);
}

/** Starts the store's extension alone, for as long as the command takes. */
async function inStore(
  config: ServiceConfig,
  id: string,
  command: KeyCommand,
  args: Readonly<Record<string, unknown>>,
  terminal: Terminal,
): Promise<unknown> {
  const service = await createService({ config: onlyExtension(config, id) });
  await service.start();
  try {
    const store = offerOf(service, STORE, id);
    if (store === undefined)
      throw new CommandError(EXIT.failed, `the store ${id} cannot be opened`);
    const first = offerOf(service, BOOTSTRAP, id)?.first;
    if (first !== undefined) {
      const { project, token } = first;
      terminal.err(
        `The store is new: made the project ${project.name} (${project.id}) with the key ${token}, shown this once.`,
      );
    }
    return await KEY_COMMANDS[command](store, args);
  } finally {
    await service.shutdown();
  }
}

function offerOf<T>(service: Service, wanted: Capability<T>, id: string): T | undefined {
  return service.offers(wanted).find((each) => each.id === id)?.offer;
}

function onlyExtension(config: ServiceConfig, id: string): ServiceConfig {
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
        logs: { level: 'warn', encoding: 'console' },
        metrics: { ...config.service.telemetry.metrics, level: 'none' },
      },
    },
  };
}
