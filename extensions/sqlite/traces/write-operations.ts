/** Writes observations, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { gapsIn } from '../../../src/queue/record.ts';
import { keepBatch } from '../../../src/sqlite/queue/append-operations.ts';
import { deletedProjects } from '../../../src/sqlite/queue/lookups.ts';
import type { WrittenParts } from '../../../src/sqlite/queue/part-operations.ts';
import { cell, finds, tuples } from '../../../src/sqlite/rows.ts';
import type { StorePrices } from '../../../src/store/pricing.ts';
import { WrittenDelta } from '../../../src/store/rollups/delta.ts';
import type { BatchRows } from '../../../src/store/rows/batch-rows.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { ObservationWrite } from '../../../src/store/rows/observation-write.ts';
import { idOfTrace } from '../../../src/store/rows/stored.ts';
import { attachmentReferring } from '../attachments/operations.ts';
import type { MadeSummary } from './read-operations.ts';
import { DeltaLog } from './rollup-operations.ts';
import { Statements, summarySaving } from './statements.ts';
import { WaitingChildren } from './waiting-children.ts';

export type TraceWrite = Pick<BatchRows, 'traces' | 'updates' | 'children' | 'attachments'> & {
  readonly project: string;
  readonly keyId: string;
  readonly batchId: string;
  readonly receivedAt: number;
  readonly usageAt: number;
  /** The batch's body, if it is large. */
  readonly parts: WrittenParts | null;
  /** Whether the caller wants the ids of the changed traces. */
  readonly namesTraces: boolean;
  /** Traces whose newest event is older are expired. */
  readonly since: number;
  /** The gaps of the batch that the rows are of. */
  readonly gaps: readonly number[];
};

export type WrittenTraces =
  | {
      readonly state: 'written';
      /** Whether this call counted the batch's usage. */
      readonly isCounted: boolean;
      /** False if a trace needs its summary made. */
      readonly isSummarized: boolean;
      /** The terms that were left out of the index. */
      readonly unindexedTerms: number;
      /** The ids of the changed traces, if the caller wants them. */
      readonly traceIds: readonly string[];
    }
  /** The store does not have the batch, and the call had no record: nothing was written. */
  | { readonly state: 'needs batch' }
  /** Items were cut out of the stored batch that the caller's copy still has: nothing was written. */
  | { readonly state: 'cut'; readonly gaps: readonly number[] }
  /** Nothing was written. */
  | { readonly state: 'project deleted' };

export function traceOperations(db: DatabaseSync, prices: StorePrices) {
  const keep = keepBatch(db);
  const statements = new Statements(db);
  const waiting = new WaitingChildren(db);
  const isDeleted = deletedProjects(db);
  const deltas = new DeltaLog(db);
  const refer = attachmentReferring(db);
  const saveSummary = summarySaving(db);
  const name = tuples<[key: Key, longId: string | null]>(
    db,
    'SELECT key, long_id FROM traces WHERE n = ?',
  );
  const cutOf = cutSearch(db);
  const hasExpired = finds(db, 'SELECT 1 FROM partly_expired WHERE seq = ?');
  const idOfNumber = (n: number): string => idOfTrace(...(name.get(n) ?? ['', null]));
  return {
    /** Without effect if the trace changed since it was summarized, or is gone. */
    'traces.saveSummary': (made: MadeSummary): void => saveSummary(made.trace, made),
    /** Without a record the caller expects that the store has the batch. */
    'traces.write': (
      {
        project,
        keyId,
        batchId,
        receivedAt,
        traces,
        updates,
        children,
        attachments,
        usageAt,
        parts,
        namesTraces,
        since,
        gaps,
      }: TraceWrite,
      record: BatchRecord | null,
    ): WrittenTraces => {
      if (isDeleted(project)) return { state: 'project deleted' };
      const known = statements.seqOf(batchId);
      if (known === undefined && record === null) return { state: 'needs batch' };
      const cut = known === undefined ? [] : cutOf(known, gaps);
      if (cut.length > 0) return { state: 'cut', gaps: cut };
      const kept =
        known === undefined && record !== null ? keep(record, usageAt, parts) : undefined;
      const batch = known ?? kept?.seq ?? 0;
      const { pricing } = prices;
      const rollups = new WrittenDelta();
      // Retention has removed traces of the batch since a former delivery, which ended without an acknowledgement.
      const isExpired = known !== undefined && receivedAt < since && hasExpired(known);
      const source = { project, keyId, batch, receivedAt, pricing, rollups, isExpired };
      statements.begin();
      const run = new ObservationWrite(statements, waiting, source);
      for (const rows of traces) run.writeTrace(rows);
      run.writeChildren(children);
      run.writeUpdates(updates);
      const isSummarized = run.finish();
      for (const delta of rollups.stored()) deltas.addStored(project, delta);
      refer(project, batchId, attachments);
      const { unindexedTerms } = run;
      const isCounted = kept?.isCounted === true;
      const traceIds = namesTraces ? run.changed().map(idOfNumber) : [];
      return { state: 'written', isCounted, isSummarized, unindexedTerms, traceIds };
    },
  };
}

/** Returns a function that finds the gaps of a stored batch which a copy of it does not have. A gap is a null among the positions. */
function cutSearch(db: DatabaseSync): (seq: number, gaps: readonly number[]) => number[] {
  const positionsOf = cell<string>(
    db,
    "SELECT positions FROM raw_batches WHERE seq = ? AND instr(positions, 'null') > 0",
  );
  return (seq, gaps) => {
    const positions = positionsOf(seq);
    if (positions === undefined || positions === null) return [];
    const known = new Set(gaps);
    return gapsIn(positions).filter((gap) => !known.has(gap));
  };
}
