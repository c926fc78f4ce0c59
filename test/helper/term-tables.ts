import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import type { ObservationTableRow } from '../../extensions/postgres/traces/rows.ts';
import { entryOf } from '../../extensions/postgres/traces/rows.ts';
import { isUnposted, termsOfBlob } from '../../extensions/sqlite/traces/postings.ts';
import type { ObservationCells } from '../../extensions/sqlite/traces/statements.ts';
import { OBSERVATION_COLUMN_NAMES, splitRow } from '../../extensions/sqlite/traces/statements.ts';
import { rows, tuples } from '../../src/sqlite/rows.ts';
import { listedAt } from '../../src/store/rows/trace-columns.ts';
import type { SummedRow } from '../../src/store/rows/trace-summary.ts';
import { summarize } from '../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../src/store/rows/trace-terms.ts';

/** The postings of a store, posted or waiting in SQLite, one text each and sorted, and those that a recount from the rows gives. */
export type TermTables = { readonly posted: string[]; readonly recounted: string[] };

type TraceState = {
  readonly n: number;
  readonly project: string;
  readonly key_id: string | null;
  readonly created_at: number;
  readonly updated_at: number;
};

const TRACES = 'SELECT n, project, key_id, created_at, updated_at FROM traces';
const POSTINGS = `SELECT CAST(term AS text) || ' ' || at_ms || ' ' || at_ns || ' ' || trace AS posting
  FROM trace_terms`;

export function sqliteTermTables(file: string): TermTables {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const observations = tuples<ObservationCells>(
      db,
      `SELECT ${OBSERVATION_COLUMN_NAMES.join(', ')} FROM observations WHERE trace = ?`,
    );
    const traces = rows<TraceState>(db, TRACES).all();
    const posted = rows<{ posting: string }>(db, POSTINGS).all();
    const waiting = rows<WaitingTrace>(db, WAITING).all();
    return {
      posted: [...posted.map(({ posting }) => posting), ...waiting.flatMap(postingsOf)].sort(),
      recounted: traces
        .flatMap((trace) => recounted(trace, observations.all(trace.n).map(splitRow)))
        .sort(),
    };
  } finally {
    db.close();
  }
}

/** A trace whose terms are in its row only. */
type WaitingTrace = {
  readonly n: number;
  readonly at_ms: number;
  readonly at_ns: number;
  readonly terms: Uint8Array;
};

const WAITING = `SELECT n, at_ms, at_ns, terms FROM traces
  WHERE terms IS NOT NULL AND ${isUnposted('n')}`;

function postingsOf({ n, at_ms: ms, at_ns: ns, terms }: WaitingTrace): string[] {
  return termsOfBlob(terms).map((term) => `${term} ${ms} ${ns} ${n}`);
}

/** Leaves the traces as an earlier version did. */
const FORGET = `DELETE FROM trace_terms;
  UPDATE traces SET terms = NULL, stale_changes = 1`;

export function forgetSqliteTerms(file: string): void {
  const db = new DatabaseSync(file, { timeout: 5000 });
  try {
    db.exec(FORGET);
  } finally {
    db.close();
  }
}

export async function forgetPostgresTerms(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(FORGET);
  } finally {
    await client.end();
  }
}

export async function postgresTermTables(url: string): Promise<TermTables> {
  const types = {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === 20 && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format),
  };
  const client = new pg.Client({ connectionString: url, types });
  await client.connect();
  try {
    const traces = await client.query<TraceState>(TRACES);
    const observations = await client.query<ObservationTableRow>('SELECT * FROM observations');
    const posted = await client.query<{ posting: string }>(POSTINGS);
    const entries = observations.rows.map(entryOf);
    return {
      posted: posted.rows.map(({ posting }) => posting).sort(),
      recounted: traces.rows
        .flatMap((trace) =>
          recounted(
            trace,
            entries.filter((entry) => entry.trace === trace.n),
          ),
        )
        .sort(),
    };
  } finally {
    await client.end();
  }
}

function recounted(state: TraceState, observations: readonly SummedRow[]): string[] {
  const { n, project, key_id: keyId, created_at: createdAt, updated_at: updatedAt } = state;
  const summary = summarize(observations, updatedAt);
  const terms = traceTerms(project, keyId, summary);
  const { ms, ns } = listedAt({ n, createdAt, summary, terms, rollup: null });
  return terms.terms.map((term) => `${term} ${ms} ${ns} ${n}`);
}
