/**
 * A process that sweeps the queue `in` of the database in its first argument, and prints what it does: `sweeping` when
 * it has the lease and is about to read, then it waits; `added` for jobs that it adds. Standard input ends it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { openQueues } from '../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../src/component/clock.ts';
import { databaseOf, migrated } from './queue-database.ts';
import { recordingLogger } from './settings.ts';
import { sweepQueue } from './sweeping.ts';

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const postgres = await migrated(process.argv[2] ?? '');
const logger = {
  ...recordingLogger(),
  info: (_fields: object, message: string) => print(message),
};
const queues = await openQueues(databaseOf(postgres), systemClock, logger);
await sweepQueue(queues, logger, {
  async announced() {
    print('sweeping');
    await sleep(1000);
    return new Set();
  },
  count: async () => 0,
  async addAll(jobs) {
    if (jobs.length > 0) print('added');
  },
  recreateLost: async () => 0,
});
process.stdin.resume().on('end', () => process.exit(0));
