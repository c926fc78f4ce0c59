import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { TraceStore } from '../../src/store/store.ts';

export function sqliteTraces(_database: Database, _clock: Clock): TraceStore {
  const missing = () => Promise.reject(new Error('traces are not stored yet'));
  return {
    write: missing,
    listTraces: missing,
    getTrace: missing,
    listObservations: missing,
    getObservation: missing,
    getBatches: missing,
  };
}
