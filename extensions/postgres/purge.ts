import type { Steps } from '../../src/component/background.ts';
import type { QueueDatabase } from './queue-database.ts';
export type PostgresPurge = {
  ensurePartitions(now: number): Promise<void>;
  expireStep(project: string, since: number): Promise<boolean>;
  removeProjectStep(project: string): Promise<boolean>;
  removeFreeBatches(): Steps;
};
export function purgeOf(_d: QueueDatabase): PostgresPurge {
  return {
    async ensurePartitions() {},
    async expireStep() {
      return false;
    },
    async removeProjectStep() {
      return false;
    },
    async *removeFreeBatches() {},
  };
}
