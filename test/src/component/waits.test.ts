import t from 'tap';
import { Waits, WaitTimeout, waitAtMost } from '../../../src/component/waits.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

function rig() {
  const clock = fakeClock();
  const logger = recordingLogger();
  return { clock, logger, waits: new Waits({ clock, logger, stepTimeout: 1000 }) };
}

const never = (): Promise<never> => new Promise(() => {});

const isTimeout = async (wait: Promise<unknown>): Promise<boolean> =>
  (await wait.catch((error: unknown) => error)) instanceof WaitTimeout;

t.test('resolves with the result of work that ends at the bound', async (t) => {
  const { clock, logger, waits } = rig();
  const work = Promise.withResolvers<string>();
  const wait = waits.step('take', () => work.promise);
  clock.advance(999);
  work.resolve('taken');
  t.equal(await wait, 'taken');
  clock.advance(10_000);
  t.same(logger.lines, []);
  t.equal(clock.pending(), 0, 'no timer is left');
});

t.test('rejects with the name of a wait at its bound, and logs it', async (t) => {
  const { clock, logger, waits } = rig();
  const wait = waits.step('take', never);
  clock.advance(1000);
  await t.rejects(wait, new WaitTimeout('take', 1000));
  t.ok(await isTimeout(wait));
  t.match(logger.lines, [
    { level: 'warn', fields: { wait: 'take', boundMs: 1000 }, message: /exceeded its bound/ },
  ]);
});

t.test('a wait may have a bound of its own', async (t) => {
  const { clock, waits } = rig();
  const wait = waits.within('delivery', 5000, never);
  let ended = false;
  wait.catch(() => {
    ended = true;
  });
  clock.advance(4999);
  await new Promise(setImmediate);
  t.notOk(ended);
  clock.advance(1);
  await t.rejects(wait, new WaitTimeout('delivery', 5000));
});

t.test('passes on the failure of work', async (t) => {
  const { logger, waits } = rig();
  await t.rejects(
    waits.step('take', async () => {
      throw new Error('away');
    }),
    /away/,
  );
  t.same(logger.lines, []);
  t.same(waits.lasting(), []);
});

t.test('aborts the signal of abandoned work, whose late failure changes nothing', async (t) => {
  const clock = fakeClock();
  const work = Promise.withResolvers<void>();
  let signal: AbortSignal | undefined;
  const wait = waitAtMost(clock, 'take', 10, (abandoned) => {
    signal = abandoned;
    return work.promise;
  });
  t.equal(signal?.aborted, false);
  clock.advance(10);
  t.equal(signal?.aborted, true);
  t.ok(await isTimeout(wait));
  work.reject(new Error('late'));
  await new Promise(setImmediate);
});

t.test(
  'names the waits that last, also those that were abandoned, until their work ends',
  async (t) => {
    const { clock, waits } = rig();
    const first = Promise.withResolvers<void>();
    const wait = waits.step('take', () => first.promise);
    clock.advance(600);
    const second = waits.step('room', () => first.promise);
    clock.advance(400);
    t.ok(await isTimeout(wait));
    t.same(waits.lasting(), [
      { wait: 'take', lasts: 1000, abandoned: true },
      { wait: 'room', lasts: 400, abandoned: false },
    ]);
    first.resolve();
    await second;
    t.same(waits.lasting(), []);
  },
);

t.test('logs a name once in 10 s, with the number of lines in between', async (t) => {
  const { clock, logger, waits } = rig();
  const exceed = async (wait: string): Promise<void> => {
    const waiting = waits.within(wait, 0, never);
    clock.advance(0);
    t.ok(await isTimeout(waiting));
  };
  await exceed('take');
  await exceed('take');
  clock.advance(9_999);
  await exceed('take');
  await exceed('room');
  t.same(
    logger.lines.map(({ fields }) => fields),
    [
      { wait: 'take', boundMs: 0 },
      { wait: 'room', boundMs: 0 },
    ],
  );
  clock.advance(1);
  await exceed('take');
  t.same(logger.lines.at(-1)?.fields, { wait: 'take', boundMs: 0, before: 2 });
  clock.set(clock.now() - 3_600_000);
  await exceed('take');
  t.equal(logger.lines.length, 4, 'a clock that goes back does not silence the name');
});
