import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { sql, startCluster } from './cluster.ts';
import { oracle } from './cluster-oracle.ts';
import { type Entry, startLoad } from './journal.ts';

/** The oracle of the cluster finds each kind of damage that a test puts into the tables. */

t.setTimeout(240_000);

const LOAD_MS = 2_000;

/** Each damage stays, so that the last ones are reported beside the first ones. */
const DAMAGES = {
  'an item that is counted twice': {
    says: /^usage: \d+, and \d+ are read back/,
    text: `UPDATE usage_ledger SET events = events + 1
             WHERE batch_id = (SELECT min(batch_id) FROM usage_ledger)`,
  },
  'a batch that is stored twice': {
    says: /its bytes are stored 2 times/,
    // Housekeeping removes a batch that nothing refers to ten seconds after it was received.
    text: `WITH first AS (SELECT * FROM batches ORDER BY id LIMIT 1)
           INSERT INTO batches SELECT (r).* FROM (
             SELECT jsonb_populate_record(null::batches, to_jsonb(f) ||
               '{"id": "again", "received_at": ${Number.MAX_SAFE_INTEGER}}') AS r
               FROM first f) AS copied`,
  },
  'a lost observation': {
    says: /acknowledged\): (not there|\d+ of \d+ items)/,
    text: 'DELETE FROM observations WHERE ctid = (SELECT min(ctid) FROM observations)',
  },
  'a lost batch': {
    says: /acknowledged\): its bytes are not stored/,
    text: 'DELETE FROM batches WHERE id = (SELECT max(id) FROM batches WHERE id < $$again$$)',
  },
};

t.test('the oracle of the cluster reports a loss, a double and a wrong count', async (t) => {
  const cluster = await startCluster(t, { gateways: 1, workers: 1 });
  const journal: Entry[] = [];
  const load = startLoad(() => cluster.target(), journal, { clients: 2, open: [503] });
  await sleep(LOAD_MS);
  await load.stop();
  await cluster.drained();
  t.same(await oracle(cluster, journal), [], 'nothing is damaged yet');
  for (const [name, { says, text }] of Object.entries(DAMAGES)) {
    await sql(cluster.database, text);
    const problems = await oracle(cluster, journal);
    t.ok(
      problems.some((problem) => says.test(problem)),
      `${name}: ${problems.slice(0, 3).join('; ').slice(0, 300)}`,
    );
  }
});
