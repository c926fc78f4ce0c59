import t from 'tap';
import { recomputedText } from '../../../src/cli/cost.ts';

t.test('a recomputation of costs that changes none names no amounts', (t) => {
  const none = { observations: 2_060, changed: 0, cost_before: 0, cost_after: 0 };
  const run = { ...none, dry_run: false };
  t.equal(recomputedText(run), 'Priced 2,060 observations: no cost changed.');
  const dryRun = { ...none, dry_run: true };
  t.equal(recomputedText(dryRun), 'Priced 2,060 observations: no cost would change.');
  t.end();
});

t.test('a recomputation of costs names the sums of those that changed', (t) => {
  t.equal(
    recomputedText({
      ...{ observations: 60, changed: 20, dry_run: false },
      ...{ cost_before: 0.5, cost_after: 0.25 },
    }),
    'Priced 60 observations: the cost of 20 changed, together from 0.5 to 0.25 USD.',
  );
  t.end();
});
