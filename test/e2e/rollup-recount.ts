import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { RollupChange } from '../../src/store/rollups/contribution.ts';
import {
  changesOfContribution,
  contributionFromText,
} from '../../src/store/rollups/contribution.ts';
import { addNumbers, storedChanges } from '../../src/store/rollups/delta.ts';
import { periodOf } from '../../src/store/rollups/fold.ts';

/** Sums by step, field and period: which row a value is counted in does not matter. */
type Sums = Map<string, number[]>;

/**
 * Compares the rollups of a SQLite store that no process has open, and the changes that wait for their rows, with the
 * contributions in the rows of traces. One sentence for each difference. No trace may have expired.
 */
export function rollupProblems(directory: string): string[] {
  const db = new DatabaseSync(join(directory, 'store.db'), { readOnly: true });
  try {
    const [expected, found]: [Sums, Sums] = [new Map(), new Map()];
    const rollup = 'SELECT rollup FROM traces WHERE rollup IS NOT NULL';
    for (const { rollup: text } of db.prepare(rollup).iterate()) {
      addChanges(expected, changesOfContribution(contributionFromText(String(text))));
    }
    for (const { kind, changes } of db
      .prepare('SELECT kind, changes FROM rollup_deltas')
      .iterate()) {
      addChanges(found, storedChanges(Number(kind), String(changes)));
    }
    const columns = 'traces, observations, errors, input, output, cached, cost';
    const rows = db.prepare(`SELECT step, field, start, ${columns} FROM rollups`);
    rows.setReturnArrays(true);
    const untyped: { iterate(): Iterable<unknown> } = rows;
    for (const [step = 0, field = 0, start = 0, ...numbers] of untyped.iterate() as Iterable<
      number[]
    >) {
      add(found, step, field, start, numbers);
    }
    return differences(expected, found);
  } finally {
    db.close();
  }
}

function addChanges(sums: Sums, changes: readonly RollupChange[]): void {
  for (const [hour, field, , numbers] of changes) {
    for (const step of [1, 24]) add(sums, step, field, periodOf(step, hour), numbers);
  }
}

function add(sums: Sums, step: number, field: number, start: number, numbers: readonly number[]) {
  const key = `step ${step}, field ${Math.abs(field)}, hour ${start}`;
  const sum = sums.get(key) ?? [];
  sums.set(key, sum);
  addNumbers(sum, numbers);
}

function differences(expected: Sums, found: Sums): string[] {
  const keys = new Set([...expected.keys(), ...found.keys()]);
  return [...keys].flatMap((key) => {
    const [wanted, stored] = [expected, found].map((sums) => String(sums.get(key) ?? 'nothing'));
    return wanted === stored ? [] : [`rollups of ${key} are ${stored} in place of ${wanted}`];
  });
}
