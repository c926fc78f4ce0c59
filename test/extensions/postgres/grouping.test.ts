import t from 'tap';
import { Failed, grouped } from '../../../extensions/postgres/grouping.ts';
import { WaitTimeout } from '../../../src/component/waits.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const BOUND_MS = 1000;

/** Groups that a test ends; `begun` has the calls of each group and its signal. */
function rig(more: { readonly most?: number } = {}) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const begun: {
    readonly calls: readonly string[];
    readonly abandoned: AbortSignal;
    readonly end: PromiseWithResolvers<readonly (string | Failed)[]>;
  }[] = [];
  const call = grouped<string, string>(
    {
      ...{ count: 10, weight: 10 },
      ...(more.most === undefined ? {} : { slow: { clock, afterMs: 100, most: more.most } }),
      bound: { name: 'take', ms: BOUND_MS, clock, logger },
    },
    () => 1,
    (calls, abandoned) => {
      const end = Promise.withResolvers<readonly (string | Failed)[]>();
      begun.push({ calls, abandoned, end });
      return end.promise;
    },
  );
  return { clock, logger, begun, call };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const outcome = (call: Promise<string>): Promise<unknown> => call.catch((error: unknown) => error);

t.test('keeps a group that ends before its bound', async (t) => {
  const { clock, logger, begun, call } = rig();
  const one = call('one');
  await turn();
  clock.advance(BOUND_MS - 1);
  begun[0]?.end.resolve(['result']);
  t.equal(await one, 'result');
  clock.advance(BOUND_MS);
  t.same(logger.lines, []);
  t.equal(begun[0]?.abandoned.aborted, false);
});

t.test('abandons a group at its bound, and later calls proceed', async (t) => {
  const { clock, logger, begun, call } = rig();
  const hung = [outcome(call('a')), outcome(call('b'))];
  await turn();
  const waiting = call('c');
  clock.advance(BOUND_MS);
  for (const each of hung) t.ok((await each) instanceof WaitTimeout);
  await turn();
  t.same(
    begun.map(({ calls }) => calls),
    [['a', 'b'], ['c']],
    'calls that waited behind the group form the next one',
  );
  t.equal(begun[0]?.abandoned.aborted, true);
  begun[1]?.end.resolve(['taken']);
  t.equal(await waiting, 'taken');
  t.match(logger.lines, [
    { level: 'error', fields: { wait: 'take', boundMs: BOUND_MS, calls: 2 } },
  ]);
  const next = call('d');
  await turn();
  begun[2]?.end.resolve(['also taken']);
  t.equal(await next, 'also taken');
});

for (const [name, end] of [
  ['result', (group: PromiseWithResolvers<readonly string[]>) => group.resolve(['late'])],
  ['failure', (group: PromiseWithResolvers<readonly string[]>) => group.reject(new Error('late'))],
] as const) {
  t.test(`ignores the late ${name} of an abandoned group`, async (t) => {
    const { clock, begun, call } = rig();
    const hung = outcome(call('a'));
    await turn();
    clock.advance(BOUND_MS);
    await hung;
    const next = call('b');
    await turn();
    const [first] = begun;
    if (first !== undefined) end(first.end as PromiseWithResolvers<readonly string[]>);
    await turn();
    begun[1]?.end.resolve(['own']);
    t.equal(await next, 'own');
    t.equal(begun.length, 2);
  });
}

t.test('groups that all hang leave room for others once they are abandoned', async (t) => {
  const { clock, begun, call } = rig({ most: 2 });
  const hung: Promise<unknown>[] = [];
  for (const name of ['a', 'b', 'c']) {
    hung.push(outcome(call(name)));
    await turn();
    clock.advance(100);
    await turn();
  }
  t.equal(begun.length, 2, 'no further group begins while two hang');
  clock.advance(BOUND_MS);
  await hung[0];
  await turn();
  await turn();
  t.same(begun[2]?.calls, ['c']);
});

t.test('a failure that may pass still fails the calls behind its group', async (t) => {
  const { begun, call } = rig();
  const first = outcome(call('a'));
  await turn();
  const second = outcome(call('b'));
  begun[0]?.end.reject(new RetryableError('storage_failed', 'away'));
  t.match(await first, { code: 'storage_failed' });
  t.match(await second, { code: 'storage_failed' });
  t.equal(begun.length, 1);
});

t.test('fails one call of a group only', async (t) => {
  const { begun, call } = rig();
  const calls = [outcome(call('a')), outcome(call('b'))];
  await turn();
  begun[0]?.end.resolve([new Failed(new Error('bad')), 'good']);
  t.match(await calls[0], new Error('bad'));
  t.equal(await calls[1], 'good');
});
