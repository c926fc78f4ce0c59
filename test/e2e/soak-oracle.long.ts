import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type Entry, startLoad } from './journal.ts';
import { embedded } from './soak-systems.ts';

/** The oracle of the soak finds each kind of damage that a test puts into the store or the journal. */

t.setTimeout(600_000);

const LOAD_MS = 1_000;
/** The first batch of the ledger. */
const FIRST = '(SELECT min(batch_id) FROM usage_ledger)';

type Damage = {
  /** Matches the sentence of the oracle. */
  readonly says: RegExp;
  readonly store?: (database: DatabaseSync) => void;
  readonly journal?: (journal: readonly Entry[]) => readonly Entry[];
};

/** Stores the first batch a second time, with an id and a number of its own. */
function repeatBatch(database: DatabaseSync): void {
  const row = database.prepare('SELECT * FROM raw_batches ORDER BY seq LIMIT 1').get() ?? {};
  const last = database.prepare('SELECT max(seq) AS seq FROM raw_batches').get();
  const copy = { ...row, seq: Number(last?.['seq']) + 1, id: `${String(row['id'])}-again` };
  const names = Object.keys(copy);
  const values: SQLInputValue[] = Object.values(copy);
  database
    .prepare(`INSERT INTO raw_batches (${names.join()}) VALUES (${names.map(() => '?').join()})`)
    .run(...values);
}

const DAMAGES: Readonly<Record<string, Damage>> = {
  'a lost observation': {
    says: /acknowledged\): (not there|\d+ of \d+ items)/,
    store: (database) =>
      database.exec('DELETE FROM observations WHERE n = (SELECT min(n) FROM observations)'),
  },
  'a lost batch': {
    says: /acknowledged\): its bytes are not stored/,
    store: (database) =>
      database.exec('DELETE FROM raw_batches WHERE seq = (SELECT min(seq) FROM raw_batches)'),
  },
  'a batch that is stored twice': {
    says: /its bytes are stored 2 times/,
    store: repeatBatch,
  },
  'an item that is counted twice': {
    says: /^usage: \d+, and \d+ are read back/,
    store: (database) =>
      database.exec(`UPDATE usage_ledger SET events = events + 1 WHERE batch_id = ${FIRST}`),
  },
  'an accepted request that no client sent': {
    says: /^usage: \d+, and \d+ are read back/,
    journal: (journal) => journal.filter((entry) => entry !== firstStored(journal)),
  },
  'a refused request that is stored': {
    says: /refused, and stored/,
    journal: (journal) =>
      journal.map((entry) =>
        entry === firstStored(journal) ? { ...entry, state: 'refused' } : entry,
      ),
  },
};

/** The first request of the load may be one that must be refused. */
function firstStored(journal: readonly Entry[]): Entry | undefined {
  return journal.find(({ state, items }) => state === 'acknowledged' && items.length > 0);
}

t.test('the oracle of the soak reports a loss, a double and a wrong count', async (t) => {
  const system = await embedded(t);
  const { daemon } = system.daemons[0] ?? {};
  if (daemon === undefined) throw new Error('there is no daemon');
  const journal: Entry[] = [];
  const load = startLoad(system.target, journal, { clients: 2, restMs: () => 20 });
  await sleep(LOAD_MS);
  await load.stop();
  t.ok(journal.length > 5, `${journal.length} requests`);
  t.same(await system.problems(journal), [], 'nothing is damaged yet');

  const data = join(daemon.directory, 'data');
  const whole = `${data}-whole`;
  cpSync(data, whole, { recursive: true });
  t.teardown(() => rmSync(whole, { recursive: true, force: true }));
  for (const [name, damage] of Object.entries(DAMAGES)) {
    rmSync(data, { recursive: true });
    cpSync(whole, data, { recursive: true });
    const database = new DatabaseSync(join(data, 'store.db'));
    damage.store?.(database);
    database.close();
    await daemon.start();
    const problems = await system.problems(damage.journal?.(journal) ?? journal);
    t.ok(
      problems.some((problem) => damage.says.test(problem)),
      `${name}: ${problems.slice(0, 3).join('; ').slice(0, 300)}`,
    );
  }
});
