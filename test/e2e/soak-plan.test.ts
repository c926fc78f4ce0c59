import t from 'tap';
import { planOf } from './soak-plan.ts';

const ATTACKS = ['a', 'b', 'c'];
const VICTIMS = ['gateway', 'worker', 'Redis'];

t.test('a seed reproduces the draw, and another seed draws something else', async (t) => {
  const plan = planOf(7, 600, ATTACKS, VICTIMS);
  t.same(planOf(7, 600, ATTACKS, VICTIMS), plan);
  t.not(JSON.stringify(planOf(8, 600, ATTACKS, VICTIMS)), JSON.stringify(plan));
});

t.test(
  'a long plan has all attacks, freezes of 1 to 30 s and kills of every process',
  async (t) => {
    const plan = planOf(1, 36_000, ATTACKS, VICTIMS);
    const drawn = new Set(plan.flatMap(({ attacks }) => attacks.map(({ name }) => name)));
    t.same([...drawn].sort(), ATTACKS);
    const faults = plan.flatMap(({ fault }) => (fault === undefined ? [] : [fault]));
    for (const kind of ['freeze', 'kill']) {
      const hit = new Set(faults.filter((one) => one.kind === kind).map(({ victim }) => victim));
      t.equal(hit.size, VICTIMS.length, kind);
    }
    const freezes = faults.filter(({ kind }) => kind === 'freeze').map(({ ms }) => ms);
    t.equal(Math.min(...freezes), 1_000);
    t.equal(Math.max(...freezes), 30_000);
  },
);

t.test('a plan is as long as it is asked to be, to a step', async (t) => {
  const msOf = (seconds: number) =>
    planOf(3, seconds, ATTACKS, VICTIMS).reduce(
      (sum, { lead, fault, hold, rest }) => sum + lead + (fault?.ms ?? 0) + hold + rest,
      0,
    );
  for (const seconds of [1, 20, 180]) {
    t.ok(msOf(seconds) >= seconds * 1000);
    t.ok(msOf(seconds) < seconds * 1000 + 45_000);
  }
});
