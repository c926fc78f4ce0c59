import t from 'tap';
import { recomputeCosts } from '../../../src/control/cost-recompute.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { PricedStep } from '../../../src/store/pricing.ts';
import type { Store } from '../../../src/store/store.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeStore } from '../../helper/fake-store.ts';

type Asked = Parameters<Store['costs']['priceAgain']>;

const PLACE = { ms: 1, ns: 2, trace: 3, key: null };

/** A store whose steps the test ends. */
async function held(projects = ['p']) {
  const clock = fakeClock();
  const whole = fakeStore();
  for (const name of projects) await whole.projects.create(name);
  const asked: Asked[] = [];
  const steps: PromiseWithResolvers<PricedStep | null>[] = [];
  const priceAgain = (...args: Asked) => {
    asked.push(args);
    const step = Promise.withResolvers<PricedStep | null>();
    steps.push(step);
    return step.promise;
  };
  const store: Store = { ...whole, costs: { ...whole.costs, priceAgain } };
  const settle = async () => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(100);
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  const ask = async (args: object) => {
    const answer = recomputeCosts({ store, clock }, { from: '2026-01-01', ...args });
    answer.catch(() => {});
    await settle();
    return answer;
  };
  const step = async (next: PricedStep['next'], changed = 1) => {
    steps.at(-1)?.resolve({ observations: 2, changed, costBefore: 3, costAfter: 4, next });
    await settle();
  };
  return { ask, step, steps, asked, store, clock, whole };
}

t.test('answers how far it is, until the range is done', async (t) => {
  const { ask, step, asked, clock } = await held();
  const to = '2026-02-01T00:00:00+01:00';
  const run = { run: 'a', project: 'p', wait_ms: 100, to, dry_run: true };
  t.match(await ask(run), { is_done: false, observations: 0 });
  await step(PLACE);
  t.same(await ask(run), {
    is_done: false,
    observations: 2,
    changed: 1,
    cost_before: 3,
    cost_after: 4,
  });
  await step(null);
  t.match(await ask(run), { is_done: true, observations: 4, cost_after: 8 });
  t.same(
    asked.map(([range, place, isDryRun]) => [range.from, range.to, place, isDryRun]),
    [
      [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 31, 23), null, true],
      [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 31, 23), PLACE, true],
    ],
  );
  t.equal(clock.pending(), 0);
});

t.test('prices every project, or the named one, up to now', async (t) => {
  const { ask, step, asked, whole, clock } = await held(['one', 'two']);
  const ids = (await whole.projects.list()).map(({ id }) => id);
  await ask({ run: 'a', wait_ms: 1 });
  for (const _ of ids) await step(null);
  t.same(
    asked.map(([{ projectId }]) => projectId),
    ids,
  );
  await ask({ run: 'b', wait_ms: 1, project: 'two' });
  await step(null);
  t.same(
    asked.slice(ids.length).map(([{ projectId }]) => projectId),
    [ids.at(-1)],
  );
  t.ok(asked.every(([{ to }]) => to <= clock.now() + 1));
});

t.test('refuses a second recomputation while one runs', async (t) => {
  const { ask, step } = await held();
  await ask({ run: 'a', project: 'p', wait_ms: 1 });
  await t.rejects(ask({ run: 'b', wait_ms: 1 }), { code: 'busy' });
  await step(null);
  t.match(await ask({ run: 'b', wait_ms: 1 }), { is_done: false }, 'after its end');
});

t.test('tries a step again that fails, and ends if it keeps failing', async (t) => {
  const { ask, step, steps, asked, clock } = await held();
  const run = { run: 'a', project: 'p', wait_ms: 1 };
  await ask(run);
  await step(PLACE);
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const fail = async (error: Error) => {
    steps.at(-1)?.reject(error);
    for (let i = 0; i < 5; i++) await settled();
    clock.advance(60_000);
    for (let i = 0; i < 5; i++) await settled();
  };
  const away = new RetryableError('storage_failed', 'Postgres cannot be used');
  await fail(away);
  t.same(asked[2], asked[1], 'from the same place');
  await step(PLACE);
  t.match(await ask(run), { is_done: false, observations: 4 });
  for (let i = 0; i < 9; i++) await fail(away);
  t.equal(asked.length, 12);
  await t.rejects(ask(run), { code: 'storage_failed' });
  await ask({ ...run, run: 'b' });
  await fail(new Error('a defect'));
  await t.rejects(ask({ ...run, run: 'b' }), { message: 'a defect' });
});

t.test('refuses a store without prices, and wrong ranges', async (t) => {
  const { ask, steps } = await held();
  const run = { run: 'a', wait_ms: 1 };
  await ask(run);
  steps[0]?.resolve(null);
  await t.rejects(ask(run), { code: 'no_prices', message: /^no running daemon has prices/ });
  await t.rejects(ask({ from: 'yesterday' }), { code: 'invalid_request' });
  await t.rejects(ask({ to: '2026-01-01' }), { code: 'invalid_request' });
  await t.rejects(ask({ project: 'none' }), { code: 'unknown_project' });
});
