import { defineProcessor } from '../../src/component/factory.ts';
import { SHARED_LEDGER } from '../../src/tenancy/shared-ledger.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'quotas',
  stability: 'beta',
  description:
    'Limits the events, bytes and requests of an organization, a key and an address, and counts the accepted ones',
  config,
  data: { accepts: ['received'], emits: 'same', reservesUsage: true },
  placement: {
    oneProcess: ({ counters }) =>
      counters === undefined
        ? 'without a redis in `counters` every worker would count separately, and allow the whole limit'
        : undefined,
  },
  needs: ({ counters, store }) =>
    counters === undefined || store === undefined
      ? undefined
      : {
          extension: store,
          capability: SHARED_LEDGER,
          field: 'counters',
          message: `the store "${store}" belongs to one process and counts on its own; leave \`counters\` out`,
        },
  create: async (...given) => (await import('./processor.ts')).createProcessor(...given),
});
