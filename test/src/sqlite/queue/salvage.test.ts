import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import {
  openDirectoryStorage,
  salvageDirectory,
} from '../../../../src/sqlite/queue/directory-storage.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const PAGE = 8192;

t.test('a salvage delivers the batches again whose entries are lost', async (t) => {
  const directory = t.testdir({});
  const open = async () => {
    const storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock: fakeClock(), logger: recordingLogger() },
    });
    t.teardown(() => storage.close());
    const queue = await storage.openQueue({ name: 'q', branches: ['a', 'b'], maxBytes: 1e9 });
    return { storage, queue };
  };
  const first = await open();
  for (let i = 0; i < 6; i++) await first.queue.append(nativeBatch(2));
  const [acked, dead, ...others] = await leaseAll(first.queue, 'a');
  if (acked === undefined || dead === undefined) throw new Error('no entry was leased');
  const [ackedToo, deadToo] = await leaseAll(first.queue, 'b');
  if (ackedToo === undefined || deadToo === undefined) throw new Error('no entry was leased');
  await first.queue.ack('a', [acked]);
  await first.queue.ack('b', [ackedToo, deadToo]);
  await first.queue.deadLetter('a', dead, { code: 'refused', message: 'refused' });
  const { bytes } = first.queue.stats();
  await first.storage.close();

  const file = join(directory, 'queue.db');
  const db = new DatabaseSync(file, { readOnly: true });
  const root = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'queue_pending'").get();
  db.close();
  const content = readFileSync(file);
  content.fill(0, (Number(root?.rootpage) - 1) * PAGE, Number(root?.rootpage) * PAGE);
  writeFileSync(file, content);
  await salvageDirectory(directory, recordingLogger());

  const { queue } = await open();
  const ids = others.map(({ batch }) => batch.id);
  for (const branch of ['a', 'b']) {
    const again = await leaseAll(queue, branch);
    t.same(
      again.map(({ batch }) => batch.id),
      ids,
      `branch ${branch}`,
    );
    t.same(
      again.map(({ batch }) => batch.items),
      [2, 2, 2, 2],
    );
  }
  t.match(queue.stats(), { bytes, deadLetters: 1 });
});
