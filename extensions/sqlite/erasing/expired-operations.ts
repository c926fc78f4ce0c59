/** Cuts items of expired traces out of batches that other traces keep, in the database threads. */
import type { DatabaseSync } from 'node:sqlite';
import type { SealedBatch } from '../../../src/model/batch.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { batchOf, RECORD, recordOf } from '../../../src/queue/record.ts';
import { bodyReader } from '../../../src/sqlite/queue/body-reading.ts';
import { allBranches } from '../../../src/sqlite/queue/lookups.ts';
import type { WrittenParts } from '../../../src/sqlite/queue/part-operations.ts';
import type { ShrunkBatch } from '../../../src/sqlite/queue/removal-operations.ts';
import { batchReplacing } from '../../../src/sqlite/queue/shrinking.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { BatchClaims } from '../../../src/store/erasing/expired.ts';
import { expiredItems } from '../../../src/store/erasing/expired.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { contentsOfErased, tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import type { CopyKey } from '../../../src/store/rows/copies.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { keyOfId, nameOfKey } from '../../../src/store/rows/observation-row.ts';
import { attachmentReleasing } from '../attachments/operations.ts';
import { waitingBatches } from '../batches/purge-operations.ts';

/** Notes that one step reads, and the bytes of bodies behind which it ends: a few milliseconds. */
const STEP_NOTES = 200;
const STEP_BYTES = 131_072;

/** The numbers of the traces that had events of a batch before the batch was looked at. */
type TraceList = string | null;

/** A batch whose note is no longer needed, if its traces are still the same. */
export type DoneNote = { readonly seq: number; readonly traces: TraceList };

/** A batch, and its rest without the items of expired traces. */
export type ExpiredPart = {
  readonly seq: number;
  /** The items of the batch that was read. */
  readonly items: number;
  readonly traces: TraceList;
  readonly record: BatchRecord;
  /** The hashes of attachments that only the cut items of the batch have, in hex. */
  readonly contents: readonly string[];
  /** Bytes by which the body is shorter. */
  readonly freed: number;
};

/** One step over the noted batches. */
export type ExpiredStep = {
  /** Batches whose note is no longer needed: without such an item, gone or damaged. */
  readonly done: readonly DoneNote[];
  /** The first batch with such items, which ends the step. */
  readonly found: ExpiredPart | null;
  /** Where the next step begins; null behind the last note. */
  readonly next: number | null;
};

type Note = { readonly seq: number; readonly id: string | null; readonly project: string | null };

export function expiredReadOperations(db: DatabaseSync) {
  const notes = rows<Note>(
    db,
    `SELECT e.seq, r.id, r.project FROM partly_expired e LEFT JOIN raw_batches r ON r.seq = e.seq
     WHERE e.seq > ? ORDER BY e.seq LIMIT ${STEP_NOTES}`,
  );
  const isInUse = usedBatches(db);
  const tracesOf = traceLists(db);
  const look = expiredLook(db);
  return {
    /** `project` limits the step to the batches of a project. A batch in use keeps its note. */
    'expired.look': (project: string | null, after: number): ExpiredStep => {
      const page = notes.all(after);
      const done: DoneNote[] = [];
      let bytes = 0;
      for (const note of page) {
        const { seq } = note;
        const traces = tracesOf(seq);
        if (note.project === null) done.push({ seq, traces });
        else if ((project === null || note.project === project) && !isInUse(seq)) {
          const looked = look(seq, note.project);
          if (looked.found !== null) {
            return { done, found: { ...looked.found, traces }, next: seq };
          }
          done.push({ seq, traces });
          bytes += looked.bytes;
          if (bytes >= STEP_BYTES) return { done, found: null, next: seq };
        }
      }
      const next = page.length === STEP_NOTES ? (page.at(-1)?.seq ?? null) : null;
      return { done, found: null, next };
    },
  };
}

/** Returns a function that finds whether a queue, a dead letter or an update that waits for its run needs all items of a batch. */
function usedBatches(db: DatabaseSync): (seq: number) => boolean {
  const branches = allBranches(db);
  const isWaiting = waitingBatches(db);
  const isDead = finds(db, 'SELECT 1 FROM dead_letters WHERE seq = ?');
  return (seq) => isDead(seq) || isWaiting(seq, branches());
}

function traceLists(db: DatabaseSync): (seq: number) => TraceList {
  const list = cell<string>(
    db,
    `SELECT group_concat(trace) FROM (SELECT trace FROM batch_traces WHERE batch = ? ORDER BY trace)`,
  );
  return (seq) => list(seq) ?? null;
}

type Looked = { readonly found: Omit<ExpiredPart, 'traces'> | null; readonly bytes: number };

function expiredLook(db: DatabaseSync): (seq: number, project: string) => Looked {
  const read = bodyReader(db);
  const claimsOf = claimSearch(db);
  return (seq, project) => {
    const body = read(seq);
    if ('damage' in body) return { found: null, bytes: 0 };
    const batch: SealedBatch = batchOf(body.record);
    const { length: bytes } = batch.body;
    let items: BatchItem[];
    try {
      items = tracedItems(batch);
    } catch {
      return { found: null, bytes };
    }
    const claims = claimsOf(seq, project, items);
    const expired = expiredItems(items, claims);
    if (expired.length === 0) return { found: null, bytes };
    const rest = withoutItems(batch, new Set(expired.map(({ position }) => position)));
    const record = recordOf(rest);
    const freed = Math.max(0, bytes - rest.body.length);
    const contents = contentsOfErased(items, expired);
    return { found: { seq, items: batch.items, record, contents, freed }, bytes };
  };
}

function claimSearch(
  db: DatabaseSync,
): (seq: number, project: string, items: readonly BatchItem[]) => BatchClaims {
  const tracesOf = rows<{ key: Key }>(
    db,
    `SELECT t.key FROM batch_traces b CROSS JOIN traces t ON t.n = b.trace
     WHERE b.batch = ? AND t.project = ?`,
  );
  const isRun = finds(
    db,
    `SELECT 1 FROM observations o CROSS JOIN traces t ON t.n = o.trace
     WHERE o.key = ? AND substr(o.key, 1, 1) <> ':' AND t.project = ?`,
  );
  const isCopied = finds(
    db,
    `SELECT 1 FROM observations o INDEXED BY observations_by_copy
     CROSS JOIN traces t ON t.n = o.trace WHERE o.copy = ? AND t.project = ?`,
  );
  return (seq, project, items) => {
    const traces = tracesOf.all(seq, project).map(({ key }) => nameOfKey(key));
    const keys = items.flatMap(({ id }) => (id === null ? [] : keyOfId(id)));
    const runs = keys.filter((key) => isRun(key, project)).map(nameOfKey);
    const copies = items
      .flatMap(({ copy }): CopyKey[] => (copy === null ? [] : [copy]))
      .filter((copy) => isCopied(copy, project));
    return { traces: new Set(traces), runs: new Set(runs), copies: new Set(copies) };
  };
}

export function expiredOperations(db: DatabaseSync) {
  const forget = db.prepare('DELETE FROM partly_expired WHERE seq = ?');
  const itemsOf = finds(db, 'SELECT 1 FROM raw_batches WHERE seq = ? AND items = ?');
  const tracesOf = traceLists(db);
  const isInUse = usedBatches(db);
  const replace = batchReplacing(db);
  const release = attachmentReleasing(db);
  return {
    /** A batch that lost or got a trace since it was looked at keeps its note. */
    'expired.done': (notes: readonly DoneNote[]): void => {
      for (const { seq, traces } of notes) if (tracesOf(seq) === traces) forget.run(seq);
    },
    /** Replaces a batch by its rest. Null if it is gone, or it or its traces have changed since it was read: then it keeps its note. */
    'expired.cut': (
      { seq, items, traces, record, contents }: ExpiredPart,
      parts: WrittenParts | null,
    ): ShrunkBatch | null => {
      if (!itemsOf(seq, items) || tracesOf(seq) !== traces || isInUse(seq)) return null;
      forget.run(seq);
      release(
        record[RECORD.ID],
        contents.map((hash) => Buffer.from(hash, 'hex')),
      );
      return replace(seq, record, parts);
    },
  };
}
