/** Appends and delivers until a crash point kills it, and prints the state of each batch. Run by crash.test.ts. */
import { systemClock } from '../../../../src/component/clock.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { WHOLE_BYTES } from '../../../../src/sqlite/queue/large-bodies.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const storage = await openDirectoryStorage({
  directory: process.argv[2] ?? '',
  createDirectory: true,
  minFreeBytes: 0,
  reserveBytes: 0,
  clock: systemClock,
  logger: recordingLogger(),
});
const queue = await storage.openQueue({ name: 'queue', branches: ['a'], maxBytes: 1e9 });
for (let round = 0; round < 20; round++) {
  const large = round % 3 === 0 ? [nativeBatch(1, { body: Buffer.alloc(WHOLE_BYTES + 1) })] : [];
  const batches = [nativeBatch(1), nativeBatch(2), ...large];
  for (const batch of batches) process.stdout.write(`sent ${batch.id}\n`);
  await Promise.all(batches.map((batch) => queue.append(batch)));
  for (const batch of batches) process.stdout.write(`acknowledged ${batch.id}\n`);
  const entries = await queue.lease('a', 1, 1e9);
  for (const { batch } of entries) process.stdout.write(`leased ${batch.id}\n`);
  await queue.ack('a', entries);
  for (const { batch } of entries) process.stdout.write(`finished ${batch.id}\n`);
}
