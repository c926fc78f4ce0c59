import { defineReceiver } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createReceiver } from './receiver.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'runs',
  stability: 'beta',
  description: "Runs as LangSmith's clients send them, one at a time or in batches of up to 1,000",
  config,
  hasProject: true,
  receivesEvents: true,
  create: createReceiver,
});
