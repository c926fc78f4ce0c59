import t from 'tap';
import { rebuildWatch } from '../../../src/tenancy/rebuild-watch.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

function watched() {
  const [clock, logger] = [fakeClock(), recordingLogger()];
  return { clock, logger, watch: rebuildWatch(clock, logger) };
}

t.test('a rebuild is reported once requests were refused for as long as one waits', async (t) => {
  const { clock, logger, watch } = watched();
  const rebuilt = Promise.withResolvers<number>();
  const attempt = watch.attempt(() => rebuilt.promise);
  clock.advance(1_499);
  t.notOk(watch.isLate());
  clock.advance(1);
  t.ok(watch.isLate());
  t.match(logger.lines, [{ level: 'warn', message: /requests are refused/ }]);
  clock.advance(500);
  rebuilt.resolve(7);
  t.equal(await attempt, 7);
  t.notOk(watch.isLate());
  t.match(logger.lines.at(-1), { level: 'info', fields: { milliseconds: 2_000 } });
});

t.test('failed attempts count as one, and the first one is logged', async (t) => {
  const { clock, logger, watch } = watched();
  const fail = () => watch.attempt(() => Promise.reject(new Error('away')));
  await t.rejects(fail(), { message: 'away' });
  clock.advance(1_000);
  await t.rejects(fail(), { message: 'away' });
  t.equal(logger.lines.length, 1);
  clock.advance(500);
  t.ok(watch.isLate());
  await watch.attempt(async () => {});
  t.notOk(watch.isLate());
  const sinceFirst = { milliseconds: 1_500 };
  t.match(logger.lines.at(-1), { level: 'info', fields: sinceFirst });
  await t.rejects(fail(), { message: 'away' });
  t.equal(logger.lines.at(-1)?.level, 'warn', 'the next loss is logged again');
  watch.close();
});

t.test('a rebuild in time is not reported, nor one after the end', async (t) => {
  const { clock, logger, watch } = watched();
  await watch.attempt(async () => {});
  clock.advance(10_000);
  void watch.attempt(() => new Promise(() => {}));
  watch.close();
  clock.advance(10_000);
  t.same(logger.lines, []);
  t.notOk(watch.isLate());
});
