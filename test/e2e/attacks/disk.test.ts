import { statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startDaemon } from '../daemon.ts';
import { around, dataOf, endOf, overwrite, PAGE, removeData, sendOne } from './damage.ts';

/** Damage to the files below a running or stopped daemon; more cases are in `disk.long.ts`. */

t.setTimeout(120_000);

t.test('a data directory that is removed while it is in use ends the daemon', async (t) => {
  const daemon = await startDaemon(t);
  const { before, after } = await around(daemon, () => removeData(daemon));
  t.same(Object.keys(before), ['202']);
  t.notOk(after[202], 'nothing is acknowledged that is lost');
  t.equal(await endOf(daemon), 66);
  t.match(daemon.stderr(), /was removed or replaced while tracectl had it open/);
});

t.test('a damaged log with everything in it does not start as a new store', async (t) => {
  const daemon = await startDaemon(t);
  for (let i = 0; i < 5; i++) t.equal(await sendOne(daemon, `e${i}`), 202);
  await daemon.end('SIGKILL');
  const log = join(dataOf(daemon), 'store.db-wal');
  t.equal(statSync(join(dataOf(daemon), 'store.db')).size, PAGE, 'all tables are in the log');
  overwrite(log, 0, 16);
  await t.rejects(daemon.start(), /"tracectl salvage"/);
  t.equal(await endOf(daemon), 74);
  t.match(daemon.stderr(), /Log of the database damaged|has lost its/);
});
