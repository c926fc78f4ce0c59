import { hash } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { ClockWatch } from '../../../extensions/sqlite/clock-watch.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aQuery } from '../../helper/query.ts';
import { recordingLogger } from '../../helper/settings.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function watched(knownAgo?: number, waitedMs = 0, uptime?: number) {
  const clock = fakeClock(undefined, uptime);
  const logger = recordingLogger();
  const known = knownAgo === undefined ? undefined : { at: clock.now() - knownAgo, waitedMs };
  return { clock, logger, watch: new ClockWatch(clock, logger, known) };
}

t.test(
  'a clock that is set ahead by more than an hour is wrong until it agrees again',
  async (t) => {
    const { clock, logger, watch } = watched();
    clock.misset(clock.now() + HOUR);
    t.ok(watch.isRight(), 'at the limit');
    clock.misset(clock.now() + HOUR + 1);
    t.notOk(watch.isRight());
    t.equal(watch.known(), undefined);
    t.match(watch.trouble, { healthy: false, message: /set 1 hours ahead/ });
    clock.advance(40 * DAY);
    t.notOk(watch.isRight(), 'however long it takes');
    clock.misset(clock.now() - HOUR - 1);
    t.ok(watch.isRight());
    t.equal(watch.trouble, undefined);
    t.same(
      logger.lines.map(({ message }) => message),
      ['Clock is ahead; no data expires', 'Clock counts as right; data expires again'],
    );
  },
);

t.test(
  'a clock is right after the machine slept, and after it was set back and forth',
  async (t) => {
    const { clock, watch } = watched();
    clock.set(clock.now() + 30 * DAY);
    t.ok(watch.isRight());
    clock.misset(clock.now() - 5 * DAY);
    t.ok(watch.isRight(), 'a clock behind removes less');
    clock.misset(clock.now() + 5 * DAY);
    t.ok(watch.isRight());
  },
);

t.test('a start up to a day behind the known time is right at once', async (t) => {
  t.equal(watched(DAY).watch.known()?.waitedMs, 0);
  t.ok(watched(-HOUR).watch.isRight());
  t.ok(watched(-HOUR).watch.hasSettled);
  t.ok(watched(-HOUR - 1).watch.isRight(), 'a clock behind removes less');
  t.notOk(watched(-HOUR - 1).watch.hasSettled);
});

t.test(
  'a start further ahead of the known time is right after an hour without a jump',
  async (t) => {
    const { clock, watch } = watched(DAY + 1);
    t.notOk(watch.isRight());
    t.match(watch.trouble, { healthy: true, message: /24 hours ahead of the last time/ });
    clock.advance(HOUR - 1);
    t.notOk(watch.isRight());
    clock.misset(clock.now() + 2 * HOUR);
    t.notOk(watch.isRight(), 'the hour begins again');
    t.match(watch.known(), { waitedMs: 0 });
    clock.advance(HOUR - 1);
    t.notOk(watch.isRight());
    clock.advance(1);
    t.ok(watch.isRight());
    t.ok(watch.hasSettled);
    clock.misset(clock.now() + 2 * HOUR);
    t.notOk(watch.isRight());
  },
);

t.test('starts that never last for an hour add up', (t) => {
  let waitedMs = 0;
  for (let start = 1; start <= 3; start++) {
    const { clock, watch } = watched(3 * DAY, waitedMs);
    t.notOk(watch.isRight());
    clock.advance(20 * MINUTE);
    t.equal(watch.isRight(), start === 3);
    const known = watch.known();
    t.equal(known?.at, clock.now() - (start === 3 ? 0 : 3 * DAY + 20 * MINUTE));
    waitedMs = known?.waitedMs ?? -1;
    t.equal(waitedMs, start === 3 ? 0 : start * 20 * MINUTE);
  }
  t.end();
});

t.test('a start with a clock of the past is right when a time service sets it', async (t) => {
  const { clock, watch } = watched(-30 * DAY);
  t.ok(watch.isRight());
  clock.advance(5 * MINUTE);
  clock.misset(clock.now() + 30 * DAY);
  t.ok(watch.isRight());
  t.ok(watch.hasSettled);
});

t.test('a start with a clock far ahead is right as soon as a time service sets it', async (t) => {
  const { clock, watch } = watched(400 * DAY);
  t.notOk(watch.isRight());
  clock.misset(clock.now() - 399.5 * DAY);
  t.ok(watch.isRight());
  t.ok(watch.hasSettled);
});

t.test(
  'a clock that is set in the first hour of the machine counts as one at a start',
  async (t) => {
    for (const knownAgo of [0, undefined]) {
      const { clock, watch } = watched(knownAgo, 0, MINUTE);
      t.ok(watch.isRight());
      clock.misset(clock.now() + 12 * HOUR);
      t.ok(watch.isRight(), 'the machine was off for a night');
      t.equal(watch.known()?.at, clock.now());
      clock.misset(clock.now() + 3 * DAY);
      t.notOk(watch.isRight(), 'or for days');
      t.match(watch.trouble, { healthy: true, message: /for an hour after a start/ });
      clock.advance(HOUR - 1);
      t.notOk(watch.isRight());
      clock.advance(1);
      t.ok(watch.isRight());
      clock.misset(clock.now() + 2 * HOUR);
      t.notOk(watch.isRight(), 'the hour is over');
    }
    const { clock, watch } = watched(0, 0, HOUR - 1);
    clock.misset(clock.now() + 2 * HOUR);
    t.ok(watch.isRight(), 'at the limit');
    const later = watched(0, 0, HOUR);
    later.clock.misset(later.clock.now() + 2 * HOUR);
    t.notOk(later.watch.isRight());
  },
);

/** A store with a trace, a project that keeps its traces for 10 days, and a round of housekeeping. */
async function storeWithTrace(t: Test) {
  const place = sqlitePlace(t);
  const opened = await place.open();
  t.teardown(() => opened.close());
  const [project] = await opened.store.projects.list();
  const projectId = project?.id ?? '';
  await opened.store.projects.update(projectId, { retentionDays: 10 });
  const source = nativeBatch(1, { tenant: aTenant({ projectId }), receivedAt: place.clock.now() });
  const observations = [anObservation({ id: 'o', traceId: 'kept', index: 0 })];
  await opened.store.traces.write({ kind: 'observations', source, observations });
  await opened.finish();
  const isKept = async ({ store }: typeof opened) =>
    (await store.traces.getTrace(projectId, 'kept')) !== undefined;
  return { ...place, opened, isKept };
}

t.test('a clock that runs ahead removes no trace that is not expired', async (t) => {
  const { clock, opened, isKept } = await storeWithTrace(t);
  const right = clock.now();
  clock.misset(right + 400 * DAY);
  await opened.finish();
  t.match(opened.health(), { healthy: false, message: /no data expires/ });
  clock.misset(right);
  await opened.finish();
  t.ok(await isKept(opened));
  t.match(opened.health(), { healthy: true, message: undefined });
  clock.set(right + 11 * DAY);
  await opened.finish();
  clock.set(right);
  t.notOk(await isKept(opened), 'it expires by a clock that is right');
});

t.test('health asks to mend the clock, beside damage that a start has mended', async (t) => {
  const { clock, directory, opened, open } = await storeWithTrace(t);
  await opened.close();
  const file = new DatabaseSync(join(directory, 'store.db'));
  file.exec('PRAGMA user_version = 3');
  file.close();
  const mended = await open();
  t.teardown(() => mended.close());
  const note = { healthy: true, message: /was damaged, and was corrected/ };
  t.match(mended.health(), note);
  clock.misset(clock.now() + 400 * DAY);
  await mended.finish();
  t.match(mended.health(), { healthy: false, message: /no data expires until it is right/ });
  clock.misset(clock.now() - 400 * DAY);
  await mended.finish();
  t.match(mended.health(), note);
});

t.test(
  'a clock that runs ahead removes no attachment of a batch that waits elsewhere',
  async (t) => {
    const { clock, opened } = await storeWithTrace(t);
    const { store, finish } = opened;
    const [project] = await store.projects.list();
    const projectId = project?.id ?? '';
    const content = Buffer.from('attached');
    const sha256 = hash('sha256', content, 'buffer');
    const { id } = nativeBatch(1, { id: ulid(clock.now()) });
    await store.attachments.put(projectId, id, [{ sha256, content, contentType: 'image/png' }]);
    const isHeld = async () =>
      (await store.attachments.read(projectId, sha256, 0))?.equals(content) === true;
    clock.misset(clock.now() + 400 * DAY);
    await finish();
    t.ok(await isHeld());
    const by = { actor: 'admin-token', address: null };
    await store.erasures.request(projectId, { query: aQuery('id:none'), isDryRun: false }, by);
    await finish();
    t.ok(await isHeld(), 'nor does an erasure of something else');
    clock.misset(clock.now() - 400 * DAY);
    clock.set(clock.now() + 31 * DAY);
    await finish();
    t.notOk(await isHeld());
  },
);

t.test('a start with a clock far ahead removes no trace before an hour is over', async (t) => {
  const { clock, opened, isKept, open } = await storeWithTrace(t);
  await opened.crash();
  const right = clock.now();
  clock.misset(right + 400 * DAY);
  const wrong = await open();
  await wrong.finish();
  t.match(wrong.health(), { healthy: true, message: /for an hour after a start/ });
  clock.misset(right);
  t.ok(await isKept(wrong));
  await wrong.finish();
  await wrong.close();
  clock.misset(right + 30 * DAY);
  const later = await open();
  t.teardown(() => later.close());
  await later.finish();
  clock.set(clock.now() + HOUR);
  await later.finish();
  clock.misset(right);
  t.notOk(await isKept(later), 'the machine was off for a month');
});

t.test('the store keeps how long short starts have waited', async (t) => {
  const { clock, opened, isKept, open } = await storeWithTrace(t);
  await opened.close();
  const right = clock.now();
  clock.misset(right + 30 * DAY);
  for (let start = 0; start < 2; start++) {
    const short = await open();
    clock.advance(30 * MINUTE);
    await short.finish();
    await short.close();
  }
  const last = await open();
  t.teardown(() => last.close());
  await last.finish();
  clock.misset(right);
  t.notOk(await isKept(last));
});
