import t from 'tap';
import { foldStep } from '../../../extensions/postgres/traces/rollup-folding.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import { ROLLUP_FIELDS } from '../../../src/store/rollups/fields.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = 'proj_steps';
const HOUR = 480_000;

function changeOf(user: string, traces: number, observations: number, hour = HOUR): RollupChange {
  return [hour, ROLLUP_FIELDS.user, user, [traces, observations, 0, 0, 0, 0, 0], []];
}

/** Of long values in several hours, so that a few thousand fill a step. */
function fillingOf(from: number, to: number): RollupChange[] {
  const long = 'v'.repeat(200);
  return Array.from({ length: to - from }, (_, i) =>
    changeOf(`${long}${from + i}`, 1, 1, HOUR + ((from + i) % 50)),
  );
}

t.test(
  'the rest of a step is added before a change of the same trace that commits late',
  async (t) => {
    const { postgres, database } = await traceDatabase(t, await server.database());
    const insert = (n: number, changes: readonly RollupChange[]) =>
      postgres.query(
        'INSERT INTO rollup_deltas (project, n, kind, changes) VALUES ($1, $2, 1, $3)',
        [P, n, JSON.stringify(changes)],
      );
    await insert(1, [...fillingOf(0, 2100), changeOf('alice', 1, 1)]);
    await insert(3, fillingOf(2100, 4000));
    t.equal(await foldStep(database, P), true);
    await insert(2, [changeOf('alice', 0, 5), ...fillingOf(4000, 6700)]);
    while (await foldStep(database, P));
    const { rows } = await postgres.query(
      "SELECT traces, observations FROM rollups WHERE step = 1 AND value = 'alice'",
    );
    t.match(rows, [{ traces: 1, observations: 6 }]);
  },
);
