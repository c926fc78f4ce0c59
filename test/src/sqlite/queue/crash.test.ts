import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import t from 'tap';
import { systemClock } from '../../../../src/component/clock.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { PLAIN } from '../../../helper/plain-process.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const run = promisify(execFile);
const PROGRAM = join(import.meta.dirname, 'append-until-killed.ts');

/** The passes of a point at which the program is killed; of parts each of a body's three, and one of the next body. */
const NTH: Record<string, readonly number[]> = { before_ack: [1, 3], after_part: [1, 2, 3, 5] };

/** Runs the program until the crash point kills it. Resolves with the ids that it printed, by their state. */
async function killedAt(point: string, directory: string): Promise<Map<string, string[]>> {
  const env = { ...process.env, ...PLAIN, TRACECTL_FAILPOINT: point };
  const ended = await run(process.execPath, [PROGRAM, directory], { env }).catch(
    (error: { signal?: string; stdout?: string }) => error,
  );
  t.match(ended, { signal: 'SIGKILL' }, `killed at ${point}`);
  const printed = new Map<string, string[]>();
  for (const line of (ended.stdout ?? '').trim().split('\n')) {
    const [word = '', id = ''] = line.split(' ');
    printed.set(word, [...(printed.get(word) ?? []), id]);
  }
  return printed;
}

/** The number of parts without a batch, and of parts that wait for the sweep. */
function unclaimed(directory: string): number[] {
  const database = new DatabaseSync(join(directory, 'queue.db'), { readOnly: true });
  const count = (sql: string) => Number(database.prepare(sql).get()?.count);
  const counts = [
    count('SELECT count(*) AS count FROM body_parts WHERE n NOT IN (SELECT n FROM batch_parts)'),
    count('SELECT count(*) AS count FROM free_parts'),
  ];
  database.close();
  return counts;
}

for (const point of ['before_append', 'after_append', 'after_commit', 'before_ack', 'after_part']) {
  t.test(
    `a crash at ${point} loses no acknowledged batch, and repeats no finished delivery`,
    async (t) => {
      for (const nth of NTH[point] ?? [3, 4, 9]) {
        const directory = t.testdir({});
        const printed = await killedAt(`${point}:exit@${nth}`, directory);
        const storage = await openDirectoryStorage({
          directory,
          createDirectory: true,
          minFreeBytes: 0,
          reserveBytes: 0,
          clock: systemClock,
          logger: recordingLogger(),
        });
        const options = { name: 'queue', branches: ['a'], maxBytes: 1e9 };
        const queue = await storage.openQueue(options);
        const batches = (await leaseAll(queue, 'a')).map(({ batch }) => batch);
        const found = batches.map(({ id }) => id);
        // A large body is appended with its last part, after the batches that were sent with it.
        const small = batches.filter(({ body }) => body.length < 1e6).map(({ id }) => id);
        const { sent = [], acknowledged = [] } = Object.fromEntries(printed);
        const { leased = [], finished = [] } = Object.fromEntries(printed);
        const lost = acknowledged.filter((id) => !found.includes(id) && !leased.includes(id));
        t.same(lost, [], 'no acknowledged batch is lost');
        t.same(
          found.filter((id) => finished.includes(id)),
          [],
          'no finished delivery is repeated',
        );
        t.same(
          found.filter((id) => !sent.includes(id)),
          [],
          'every batch was sent',
        );
        t.equal(new Set(found).size, found.length, 'no batch is there twice');
        t.same(small, small.toSorted(), 'in order');
        t.same(await queue.verify(), { entries: found.length, quarantined: 0 });
        await storage.tidy();
        t.same(unclaimed(directory), [0, 0], 'every part has a batch');
        await storage.close();
      }
    },
  );
}
