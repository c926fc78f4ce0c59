import { defineProcessor } from '../../src/component/component.ts';
import { quotasConfig } from './config.ts';
import { createQuotasProcessor } from './processor.ts';

export const quotas = defineProcessor({
  kind: 'processor',
  type: 'quotas',
  stability: 'beta',
  description:
    'Limits what an organization, a key and an address may send, and counts what was accepted',
  config: quotasConfig,
  accepts: ['raw'],
  emits: 'same',
  afterRejecting: true,
  create: createQuotasProcessor,
});
