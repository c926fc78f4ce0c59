import t from 'tap';
import { LedgerTotals } from '../../../src/tenancy/ledger-totals.ts';

t.test('adds up the ledger and the batches of each project and key on its own', async (t) => {
  const page = new LedgerTotals();
  page.addLedger({ project: 'a', key: 'one', events: 2, bytes: 20 });
  page.addBatches({ project: 'a', key: 'one', events: 1, bytes: 10 });
  const totals = new LedgerTotals();
  totals.addLedger({ project: 'a', key: 'one', events: 5, bytes: 50 });
  totals.addLedger({ project: 'a', key: 'two', events: 7, bytes: 70 });
  totals.addBatches({ project: 'b', key: 'one', events: 3, bytes: 30 });
  for (const check of page.checks()) totals.add(check);
  t.same(totals.checks(), [
    { project: 'a', key: 'one', events: 7, bytes: 70, keptEvents: 1, keptBytes: 10 },
    { project: 'a', key: 'two', events: 7, bytes: 70, keptEvents: 0, keptBytes: 0 },
    { project: 'b', key: 'one', events: 0, bytes: 0, keptEvents: 3, keptBytes: 30 },
  ]);
});
