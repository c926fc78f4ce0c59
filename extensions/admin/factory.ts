import { defineExtension } from '../../src/component/factory.ts';
import { ADMIN_API } from '../../src/control/admin-api.ts';
import { DATA_DIRECTORY } from '../../src/store/data-directory.ts';
import { config } from './config.ts';
import { noPlaceForToken } from './token.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'admin',
  stability: 'beta',
  description: 'Serves the management of projects, keys, plan and usage of a store over HTTP',
  config,
  provides: [ADMIN_API],
  placement: { runsIn: 'first' },
  needs: ({ store, token }) =>
    token === ''
      ? {
          extension: store,
          capability: DATA_DIRECTORY,
          field: 'token',
          message: noPlaceForToken(store),
          isOptional: true,
        }
      : undefined,
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
