import t from 'tap';
import type { LineEntry } from '../../../../src/sqlite/queue/branch-line.ts';
import { BranchLine } from '../../../../src/sqlite/queue/branch-line.ts';
import type { PendingRow } from '../../../../src/sqlite/queue/entry-operations.ts';
import { fakeClock } from '../../../helper/clock.ts';

/** Waiting entries of one project that a line keeps in memory. */
const PROJECT_WINDOW = 1024;

function entryOf(seq: number, project = 'p'): LineEntry {
  return { seq, project, items: 1, bytes: 10, receivedAt: seq, attempts: 0 };
}

function rowOf(seq: number, project = 'p'): PendingRow {
  return [seq, 1, 10, seq, 0, 0, project];
}

/** A line without entries, or with as many that wait at the opening. */
function lineWith(entries = 0, clock = fakeClock(0)) {
  return new BranchLine(
    { branch: 'a', number: 1, entries, items: entries, lastSeq: entries },
    clock,
  );
}

/** Takes every entry that is due and in memory. */
function taken(line: BranchLine): number[] {
  const all: number[] = [];
  for (let next = line.take(); next !== undefined; next = line.take()) all.push(next.seq);
  return all;
}

t.test('an entry that was removed while it was leased does not come back', async (t) => {
  for (const delay of [0, 1000]) {
    const clock = fakeClock();
    const start = { branch: 'a', number: 1, entries: 0, items: 0, lastSeq: 0 };
    const line = new BranchLine(start, clock);
    line.append({ seq: 1, project: 'p', items: 3, bytes: 10, receivedAt: 0, attempts: 0 });
    const entry = line.take();
    if (entry === undefined) throw new Error('the line has no entry');
    line.remove(1, 3);
    line.release(entry, clock.now() + delay);
    clock.advance(delay);
    t.equal(line.take(), undefined, `released for ${delay} ms`);
    t.equal(line.entries, 0);
    t.equal(clock.pending(), 0);
  }
});

t.test('reads the entries that waited at the opening up to the last one', async (t) => {
  const line = lineWith(3);
  const pages = [[rowOf(1), rowOf(2)], [rowOf(3)]];
  const read = async () => pages.shift() ?? [];
  await line.readAhead(2, read);
  t.same(taken(line), [1, 2]);
  t.ok(line.isBehind, 'a full page, of which the last entry is not in it');
  await line.readAhead(2, read);
  t.same(taken(line), [3]);
  t.notOk(line.isBehind);
});

t.test('an entry whose end reaches the file during a read is not delivered again', async (t) => {
  const line = lineWith();
  const last = PROJECT_WINDOW + 2;
  for (let seq = 1; seq < last; seq++) line.append(entryOf(seq));
  line.append(entryOf(last, 'q'));
  t.ok(taken(line).includes(last));
  line.remove(last, 1);
  line.ending.add(last);
  await line.readAhead(1000, async () => {
    line.ending.delete(last);
    return [rowOf(last - 1), rowOf(last, 'q')];
  });
  t.same(taken(line), [last - 1]);
});

t.test('an older entry that is inserted during a read is read again', async (t) => {
  const line = lineWith();
  const [first, older, second] = [1, 2, 3].map((i) => PROJECT_WINDOW + i) as [
    number,
    number,
    number,
  ];
  for (let seq = 1; seq <= first; seq++) line.append(entryOf(seq));
  line.append(entryOf(second));
  t.equal(taken(line).length, PROJECT_WINDOW);
  await line.readAhead(2, async () => {
    line.insert(entryOf(older));
    return [rowOf(first), rowOf(second)];
  });
  t.same(taken(line), [first, second]);
  await line.readAhead(9, async () => [rowOf(first), rowOf(older), rowOf(second)]);
  t.same(taken(line), [older]);
});

t.test('waiting counts from the end of an outage, which is three failures in a row', async (t) => {
  for (const failures of [2, 3]) {
    const clock = fakeClock(0);
    const line = lineWith(0, clock);
    line.append(entryOf(1));
    line.append(entryOf(2));
    for (let i = 0; i < failures; i++) {
      const failed = line.take();
      if (failed === undefined) throw new Error('the line has no entry');
      line.release(failed, clock.now() + 1000);
      t.equal(line.untriedSince(), undefined, 'the exporter fails');
      clock.advance(1000);
    }
    line.take();
    line.remove(1, 1);
    t.equal(line.untriedSince(), failures === 3 ? clock.now() : 2);
  }
});

t.test('an entry waits for an hour at most after a start with an earlier clock', async (t) => {
  const clock = fakeClock();
  const line = lineWith(2, clock);
  const hour = 3_600_000;
  const rows = [hour, 365 * 24 * hour].map(
    (wait, i): PendingRow => [i + 1, 1, 10, 0, 1, clock.now() + wait, 'p'],
  );
  await line.readAhead(9, async () => rows);
  clock.advance(hour - 1);
  t.same(taken(line), []);
  clock.advance(1);
  t.same(taken(line), [1, 2]);
});
