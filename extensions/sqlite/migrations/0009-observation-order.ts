import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { NO_START } from '../../../src/store/rows/place.ts';

/** The observations of a trace in the order in which they are listed: a page reads its rows only, and sorts nothing. */
export const observationOrder: FileMigration = {
  name: '0009-observation-order',
  apply(db) {
    // The number of the row ends every index.
    db.exec(
      `CREATE INDEX observations_in_order
       ON observations (trace, coalesce(start_ms, ${NO_START}), coalesce(start_ns, 0))`,
    );
  },
};
