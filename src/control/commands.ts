import type { QueueAdmin } from '../queue/queue.ts';
import type { Store } from '../store/store.ts';
import { DEAD_LETTER_COMMANDS, type DeadLetterCommand } from './dead-letters.ts';
import { ControlError } from './protocol.ts';
import type { ControlHandler } from './server.ts';
import { STORE_COMMANDS, type StoreCommandName } from './store-commands.ts';
import { storeWork } from './store-work.ts';

/** What commands work on: the running service, as far as they need it. */
export type ControlTargets = {
  /** By id of the extension. */
  stores(): ReadonlyMap<string, Store>;
  /** By id of the component that owns the queue. */
  queues(): ReadonlyMap<string, QueueAdmin>;
  /** Reads the configuration again; rejects with a `ControlError` when it is not taken. */
  reload(): Promise<unknown>;
};

/** Carries out what comes in over the control socket. */
export function createControlHandler(targets: ControlTargets): ControlHandler {
  return async ({ command, arguments: args }) => {
    if (command === 'reload') return targets.reload();
    if (Object.hasOwn(STORE_COMMANDS, command)) {
      const { store, ...rest } = args;
      const work = storeWork(storeFor(targets, store));
      return STORE_COMMANDS[command as StoreCommandName](work, rest);
    }
    if (Object.hasOwn(DEAD_LETTER_COMMANDS, command)) {
      return DEAD_LETTER_COMMANDS[command as DeadLetterCommand](targets.queues(), args);
    }
    throw new ControlError('unknown_command', `this daemon does not know the command ${command}`);
  };
}

function storeFor(targets: ControlTargets, id: unknown): Store {
  const store = typeof id === 'string' ? targets.stores().get(id) : undefined;
  if (store !== undefined) return store;
  throw new ControlError('unknown_store', `this daemon runs no store "${String(id)}"`);
}
