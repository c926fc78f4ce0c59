import type { QueueAdmin } from '../queue/queue.ts';
import type { ProjectReads } from '../read/project-reads.ts';
import type { Store } from '../store/store.ts';
import type { AdminApi } from './admin-api.ts';
import { DEAD_LETTER_COMMANDS, type DeadLetterCommand } from './dead-letters.ts';
import type { PipelineReport } from './pipelines.ts';
import { ControlError } from './protocol.ts';
import type { ControlHandler } from './server.ts';
import { STORE_COMMANDS, type StoreCommandName } from './store-commands.ts';
import { storeWork } from './store-work.ts';

/** The parts of the running service that control commands use. */
export type ControlTargets = {
  /** Stores by the id of their extension. */
  stores(): ReadonlyMap<string, Store>;
  /** Queues by the id of their component. */
  queues(): ReadonlyMap<string, QueueAdmin>;
  readonly reads: ProjectReads;
  pipelines(): PipelineReport;
  service(): { readonly version: string; readonly endpoints: unknown };
  /** The admin APIs that this process serves. */
  adminApis(): readonly AdminApi[];
  /** Reloads the configuration. Rejects with a `ControlError` when the new one is not valid. */
  reload(): Promise<unknown>;
};

/** Runs the commands of the control socket. */
export function createControlHandler(targets: ControlTargets): ControlHandler {
  return async ({ command, arguments: args }) => {
    if (command === 'reload') return targets.reload();
    if (command === 'ui.link') return { link: await signInLink(targets.adminApis()) };
    if (command === 'service.show') return targets.service();
    if (command === 'pipelines.show') return { processes: [targets.pipelines()] };
    if (Object.hasOwn(STORE_COMMANDS, command)) {
      const { store, ...rest } = args;
      const work = storeWork(storeFor(targets, store), targets.reads);
      return STORE_COMMANDS[command as StoreCommandName](work, rest);
    }
    if (Object.hasOwn(DEAD_LETTER_COMMANDS, command)) {
      return DEAD_LETTER_COMMANDS[command as DeadLetterCommand](targets.queues(), args);
    }
    throw new ControlError(
      'unknown_command',
      `this daemon does not know the command ${command}: if it runs an older version, restart it with this one`,
    );
  };
}

/** Throws a `ControlError` if no admin API listens. */
async function signInLink(apis: readonly AdminApi[]): Promise<string> {
  for (const api of apis) {
    const link = await api.signInLink({ actor: 'cli', address: null });
    if (link !== undefined) return link;
  }
  throw new ControlError('no_admin_api', 'this daemon serves no admin API, so it has no web UI');
}

function storeFor(targets: ControlTargets, id: unknown): Store {
  const store = typeof id === 'string' ? targets.stores().get(id) : undefined;
  if (store !== undefined) return store;
  throw new ControlError('unknown_store', `this daemon has no store "${String(id)}"`);
}
