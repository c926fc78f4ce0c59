import type { DatabaseSync } from 'node:sqlite';
import { finds } from '../../../src/sqlite/rows.ts';

/** Notes the changes of a writing connection that the index of payload text does not have. */
export type TextMarks = {
  /** Whether the store searches payloads. */
  isOn: boolean;
  inserted(trace: number, n: number): void;
  /** Before an observation is moved or removed, or after it changed. */
  changed(n: number): void;
  removed(trace: number): void;
};

const known = new WeakMap<DatabaseSync, TextMarks>();

/** One for each connection: all its operations know from the same one whether payloads are searched. */
export function textMarks(db: DatabaseSync): TextMarks {
  const existing = known.get(db);
  if (existing !== undefined) return existing;
  const add = db.prepare('INSERT INTO text_changes (trace, observation) VALUES (?, ?)');
  const addStored = db.prepare(
    'INSERT INTO text_changes (trace, observation) SELECT trace, n FROM observations WHERE n = ?',
  );
  const marks: TextMarks = {
    isOn: finds(db, 'SELECT 1 FROM text_search WHERE id = 1')(),
    inserted(trace, n) {
      if (marks.isOn) add.run(trace, n);
    },
    changed(n) {
      if (marks.isOn) addStored.run(n);
    },
    removed(trace) {
      if (marks.isOn) add.run(trace, null);
    },
  };
  known.set(db, marks);
  return marks;
}
