import { defineReceiver } from '../../src/component/component.ts';
import { runsConfig } from './config.ts';
import { createRunsReceiver } from './receiver.ts';

export const runs = defineReceiver({
  kind: 'receiver',
  type: 'runs',
  stability: 'beta',
  description: "Runs as LangSmith's clients send them, one at a time or in batches of up to 1,000",
  config: runsConfig,
  hasProject: true,
  receivesEvents: true,
  create: createRunsReceiver,
});
