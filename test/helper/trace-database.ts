import type { Test } from 'tap';
import type { Postgres } from '../../extensions/postgres/connection/pool.ts';
import type { StoreDatabase } from '../../extensions/postgres/database.ts';
import { postgresTraces } from '../../extensions/postgres/traces/traces.ts';
import { systemClock } from '../../src/component/clock.ts';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { TraceStore } from '../../src/store/store.ts';
import { nativeBatch } from './batches.ts';
import { databaseOf, migrated } from './queue-database.ts';
import { recordingLogger } from './settings.ts';

/** The bound of groups in tests. */
export const GROUPS = { ms: 15_000, clock: systemClock, logger: recordingLogger() };

/** Traces in a database of their own. A test sets retention windows and deletes projects. */
export type TracePlace = {
  readonly postgres: Postgres;
  readonly database: StoreDatabase;
  readonly traces: TraceStore;
  readonly deleted: Set<string>;
  readonly since: Map<string, number>;
  /** The number of rows of a table. */
  count(table: string): Promise<number>;
};

export async function traceDatabase(t: Test, url: string): Promise<TracePlace> {
  const postgres = await migrated(url);
  t.teardown(() => postgres.close());
  const deleted = new Set<string>();
  const since = new Map<string, number>();
  const database = databaseOf(postgres, deleted);
  const retention = {
    since: (project: string) => since.get(project) ?? Number.MIN_SAFE_INTEGER,
  };
  return {
    ...{ postgres, database, deleted, since },
    traces: postgresTraces(database, retention, GROUPS),
    async count(table) {
      const { rows } = await postgres.query(`SELECT count(*) AS count FROM ${table}`);
      return Number(rows[0]?.count);
    },
  };
}

/** A batch of observations, with a raw batch of as many events. */
export function batchWith(
  list: readonly Observation[],
  more: Partial<SealedBatch> = {},
): ObservationBatch {
  const source = nativeBatch(list.length, more);
  const observations = list.map((observation, index) => ({ ...observation, index }));
  return { kind: 'observations', source, observations };
}
