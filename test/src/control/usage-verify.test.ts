import t from 'tap';
import { verifyUsage } from '../../../src/control/usage-verify.ts';
import type { Store } from '../../../src/store/store.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeStore } from '../../helper/fake-store.ts';

/** A store whose verifications the test ends. */
function held() {
  const clock = fakeClock();
  const begun: {
    readonly report: (rows: number) => void;
    readonly end: PromiseWithResolvers<Awaited<ReturnType<Store['usage']['verify']>>>;
  }[] = [];
  const { store: whole } = { store: fakeStore() };
  const verify: Store['usage']['verify'] = (report = () => {}) => {
    const end = Promise.withResolvers<Awaited<ReturnType<Store['usage']['verify']>>>();
    begun.push({ report, end });
    return end.promise;
  };
  const store: Store = { ...whole, usage: { ...whole.usage, verify } };
  /** Asks, and lets the wait pass unless the result is there. */
  const ask = async (args: object) => {
    const answer = verifyUsage({ store, clock }, args);
    answer.catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(100);
    return answer;
  };
  return { ask, begun, store, clock };
}

const DIFFERENCE = { what: 'events', expected: 1, found: 2 };

t.test('answers how far the verification is, until it has the result', async (t) => {
  const { ask, begun } = held();
  t.same(await ask({ run: 'a', wait_ms: 100 }), { rows: 0 });
  begun[0]?.report(5000);
  t.same(await ask({ run: 'a', wait_ms: 100 }), { rows: 5000 });
  begun[0]?.end.resolve([DIFFERENCE]);
  t.same(await ask({ run: 'a', wait_ms: 100 }), { differences: [DIFFERENCE] });
  t.equal(begun.length, 1);
});

t.test('callers join the verification in progress, and each gets its result', async (t) => {
  const { ask, begun } = held();
  await ask({ run: 'a', wait_ms: 100 });
  await ask({ run: 'b', wait_ms: 100 });
  begun[0]?.end.resolve([]);
  t.same(await ask({ run: 'a', wait_ms: 100 }), { differences: [] });
  t.same(await ask({ run: 'b', wait_ms: 100 }), { differences: [] });
  t.equal(begun.length, 1);
  t.same(await ask({ run: 'c', wait_ms: 100 }), { rows: 0 }, 'a new caller begins a new one');
  t.equal(begun.length, 2);
});

t.test('without a wait the answer is the result', async (t) => {
  const { ask, begun } = held();
  const answer = ask({});
  await new Promise((resolve) => setImmediate(resolve));
  begun[0]?.end.resolve([]);
  t.same(await answer, { differences: [] });
  const next = ask({});
  await new Promise((resolve) => setImmediate(resolve));
  begun[1]?.end.reject(new Error('away'));
  await t.rejects(next, { message: 'away' });
});

t.test('a failure goes to the caller that asks next, and the one after begins again', async (t) => {
  const { ask, begun } = held();
  await ask({ run: 'a', wait_ms: 100 });
  begun[0]?.end.reject(new Error('away'));
  await t.rejects(ask({ run: 'a', wait_ms: 100 }), { message: 'away' });
  t.same(await ask({ run: 'b', wait_ms: 100 }), { rows: 0 });
});

t.test('takes waits up to 30 s', async (t) => {
  const { store, clock } = held();
  await t.rejects(verifyUsage({ store, clock }, { wait_ms: 30_001 }), { code: 'invalid_request' });
  await t.rejects(verifyUsage({ store, clock }, { wait_ms: -1 }), { code: 'invalid_request' });
  await t.rejects(verifyUsage({ store, clock }, { run: '' }), { code: 'invalid_request' });
});
