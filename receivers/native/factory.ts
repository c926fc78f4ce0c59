import { defineReceiver } from '../../src/component/component.ts';
import { nativeConfig } from './config.ts';
import { createNativeReceiver } from './receiver.ts';

export const native = defineReceiver({
  kind: 'receiver',
  type: 'native',
  stability: 'beta',
  description: 'Native observation events over HTTP, in batches of up to 1,000',
  config: nativeConfig,
  hasProject: true,
  receivesEvents: true,
  create: createNativeReceiver,
});
