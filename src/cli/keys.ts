import type { Command } from 'commander';
import type { ListedKey } from '../control/keys.ts';
import { carryOut, given, print, type StoreOptions, withStoreOptions } from './store-command.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

type Options = StoreOptions & {
  readonly project?: string;
  readonly name?: string;
  readonly permission?: readonly string[];
};

export function addKeys(program: Command, terminal: Terminal) {
  const keys = program
    .command('keys')
    .description('manage API keys, with or without a running daemon');
  const add = (name: string) => withStoreOptions(keys.command(name));
  add('list')
    .description('list keys, including revoked ones, without their tokens')
    .option('--project <project>', 'only keys of this project, by id or name')
    .action((options: Options) => list(options, terminal));
  add('create')
    .description('create a key and print its token, which is not shown again')
    .option('--project <project>', 'id or name; required if there are several')
    .option('--name <name>', 'a name for the key')
    .option('--permission <permission...>', 'ingest:write, traces:read (default: both)')
    .action((options: Options) => create(options, terminal));
  add('revoke')
    .description('revoke a key, with immediate effect')
    .argument('<id>', 'id of the key, key_…')
    .action((id: string, options: Options) => revoke(id, options, terminal));
}

async function list(options: Options, terminal: Terminal): Promise<void> {
  const { project } = options;
  const answer = await carryOut('keys.list', given({ project }), options, terminal);
  print(answer as { keys: ListedKey[] }, options, terminal, ({ keys }) =>
    table(
      ['ID', 'PROJECT', 'NAME', 'PREFIX', 'PERMISSIONS', 'LAST USED', 'STATE'],
      keys.map((key) => [
        key.id,
        key.project_id,
        key.name,
        `${key.prefix}…`,
        key.permissions.join(','),
        key.last_used_at ?? '-',
        key.revoked_at === null ? 'active' : `revoked ${key.revoked_at}`,
      ]),
    ),
  );
}

async function create(options: Options, terminal: Terminal): Promise<void> {
  const { project, name, permission } = options;
  const args = given({ project, name, permissions: permission });
  const answer = await carryOut('keys.create', args, options, terminal);
  const key = answer as ListedKey & { token: string };
  print(key, options, terminal, ({ token }) => token);
  if (options.json === true) return;
  terminal.err(`${key.id} of ${key.project_id}: keep the token, it is not shown again.`);
}

async function revoke(id: string, options: Options, terminal: Terminal): Promise<void> {
  const key = await carryOut('keys.revoke', { id }, options, terminal);
  print(key as ListedKey, options, terminal, ({ id: revoked }) => `${revoked} is revoked.`);
}
