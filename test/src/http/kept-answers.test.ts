import t from 'tap';
import { KEPT_AT_ONCE, KEPT_PER_SECOND, keptAnswers } from '../../../src/http/kept-answers.ts';
import { reject } from '../../../src/model/verbs.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { acceptInto, memoryLedger } from '../../helper/sink.ts';
import { events, post, served } from './ingesting.ts';

const MIB = 1_048_576;

function batchOf(items: number, rejected: number, projectId = 'proj_test') {
  const rejections = Array.from({ length: rejected }, (_, index) => {
    return { index, id: '', code: 'missing_field' as const, reason: 'an id is required' };
  });
  return nativeBatch(items, { rejections, tenant: aTenant({ projectId }) });
}

t.test('a project keeps a number of bytes at once, and some each second', async (t) => {
  const clock = fakeClock();
  const kept = keptAnswers(clock);
  const whole = batchOf(4, 4);
  kept.admit(whole, KEPT_AT_ONCE - 1);
  kept.admit(whole, MIB);
  const refusal = {
    code: 'rate_limited',
    status: 429,
    retryAfterMs: (MIB / KEPT_PER_SECOND) * 1000,
  };
  t.throws(() => kept.admit(whole, 1), refusal);
  kept.admit(batchOf(4, 4, 'proj_other'), MIB);
  clock.advance((MIB / KEPT_PER_SECOND) * 1000 - 1);
  t.throws(() => kept.admit(whole, 1), { code: 'rate_limited', retryAfterMs: 1000 });
  clock.advance(1);
  kept.admit(whole, 1);
});

t.test('only results of rejected items count', async (t) => {
  const kept = keptAnswers(fakeClock());
  for (let i = 0; i < 10; i++) kept.admit(batchOf(4, 0), KEPT_AT_ONCE);
  for (let i = 0; i < 4; i++) kept.admit(batchOf(4, 1), KEPT_AT_ONCE);
  t.throws(() => kept.admit(batchOf(4, 1), KEPT_AT_ONCE), { code: 'rate_limited' });
});

t.test(
  'a request whose answer would be too much is refused, and nothing of it is kept',
  async (t) => {
    const ledger = memoryLedger();
    const asked: number[] = [];
    const limit = keptAnswers(fakeClock());
    const { url, sink, refusals } = await served(t, {
      kept: {
        admit(batch, bytes) {
          asked.push(bytes);
          limit.admit(batch, bytes * MIB);
        },
      },
      pipeline: (sink) => ({
        idempotency: ledger,
        async accept(batch, request) {
          const accepting = acceptInto(sink, (each) => {
            for (let item = 1; item < each.requestItems; item++) {
              reject(each, item, 'missing_field', `events[${item}].kind`);
            }
          });
          const sealed = await accepting(batch, request);
          ledger.keep(sealed, request);
          return sealed;
        },
      }),
    });
    const first = await post(url, events(3), { 'idempotency-key': 'k1' });
    t.equal(first.status, 202);
    const refused = await post(url, events(3), { 'idempotency-key': 'k2' });
    t.match(refused, { status: 429, json: { code: 'rate_limited', accepted: 0 } });
    t.ok(Number(refused.headers.get('retry-after')) > 0);
    t.same(refusals, ['rate_limited']);
    t.equal(sink.batches.length, 1);
    const again = await post(url, events(3), { 'idempotency-key': 'k1' });
    t.strictSame(again.json, first.json, 'a kept answer is given at any time');
    t.equal((await post(url, events(1), { 'idempotency-key': 'k2' })).status, 202);
    t.equal((await post(url, events(3))).status, 202, 'without a key nothing is kept');
    t.equal(asked.length, 3);
  },
);
