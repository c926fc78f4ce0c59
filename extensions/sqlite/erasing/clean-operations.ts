/** Cuts erased items out of batches, and removes erased traces, in the database threads. */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { batchOf, MISSING_BODY, RECORD, recordOf } from '../../../src/queue/record.ts';
import { bodyReader } from '../../../src/sqlite/queue/body-reading.ts';
import type { WrittenParts } from '../../../src/sqlite/queue/part-operations.ts';
import type { ShrunkBatch } from '../../../src/sqlite/queue/removal-operations.ts';
import { batchReplacing } from '../../../src/sqlite/queue/shrinking.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { contentsOfErased, tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import type { NamedValues } from '../../../src/store/erasing/named.ts';
import { tracesNamed } from '../../../src/store/erasing/named.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { keyOfId, nameOfKey } from '../../../src/store/rows/observation-row.ts';
import { attachmentReleasing } from '../attachments/operations.ts';
import { traceHiding, traceRemoval } from '../batches/purge-operations.ts';
import { DeltaLog } from '../traces/rollup-operations.ts';

/** Rows that one step removes: about a millisecond. */
const STEP_ROWS = 200;
/** Batches that one step looks at, and the bytes of their bodies behind which it ends: a few milliseconds. */
const STEP_BATCHES = 50;
const STEP_BYTES = 131_072;

/** One step over the listed batches of an erasure. */
export type CleaningStep = {
  /** Batches without an item to erase; gone and damaged ones too. */
  readonly without: readonly number[];
  /** Damaged batches among them. */
  readonly unreadable: number;
  /** The first batch that has an item to erase, which ends the step. */
  readonly found: CleanedBatch | null;
  /** Where the next step begins; null behind the last batch. */
  readonly next: number | null;
};

/** The erased items of a batch. */
export type CleanedBatch = {
  readonly seq: number;
  /** The batch without the items. */
  readonly record: BatchRecord;
  readonly batchId: string;
  /** Request positions of the items. */
  readonly indexes: readonly number[];
  readonly ids: readonly string[];
  /** The hashes of attachments that only these items of the batch have, in hex. */
  readonly contents: readonly string[];
  /** Bytes of the items, without compression. */
  readonly bytes: number;
  /** Bytes by which the body is shorter without them. */
  readonly freed: number;
  /** Traces that the store has no rows of, and that the query names. */
  readonly unstored: readonly Key[];
};

export function cleanReadOperations(db: DatabaseSync) {
  const belonging = itemSelection(db);
  const look = batchLook(db, belonging);
  const nextBatch = cell<number>(
    db,
    `SELECT batch FROM erasure_batches INDEXED BY open_erasure_batches
     WHERE erasure = ? AND batch > ? AND is_open = 1 ORDER BY batch LIMIT 1`,
  );
  return {
    'erasing.belonging': belonging,
    'erasing.clean': (id: string, after: number, named: NamedValues | null): CleaningStep => {
      const without: number[] = [];
      let unreadable = 0;
      let bytes = 0;
      let last = after;
      while (without.length < STEP_BATCHES && bytes < STEP_BYTES) {
        const seq = nextBatch(id, last);
        if (seq === undefined || seq === null)
          return { without, unreadable, found: null, next: null };
        last = seq;
        const looked = look(id, seq, named);
        if (looked.found !== null) return { without, unreadable, found: looked.found, next: seq };
        without.push(seq);
        if (looked.isUnreadable) unreadable++;
        bytes += looked.bytes;
      }
      return { without, unreadable, found: null, next: last };
    },
  };
}

type LookedBatch = {
  /** Null if the batch has no item to erase. */
  readonly found: CleanedBatch | null;
  readonly isUnreadable: boolean;
  /** Of its body. */
  readonly bytes: number;
};

const GONE: LookedBatch = { found: null, isUnreadable: false, bytes: 0 };
const UNREADABLE: LookedBatch = { found: null, isUnreadable: true, bytes: 0 };

function batchLook(db: DatabaseSync, belonging: ReturnType<typeof itemSelection>) {
  const read = bodyReader(db);
  return (id: string, seq: number, named: NamedValues | null): LookedBatch => {
    const body = read(seq);
    if ('damage' in body) return body.damage === MISSING_BODY ? GONE : UNREADABLE;
    const project = body.record[RECORD.PROJECT];
    const batch = batchOf(body.record);
    let items: BatchItem[];
    try {
      items = tracedItems(batch);
    } catch {
      return UNREADABLE;
    }
    const { erased, unstored } = belonging(id, project, items, named);
    const bytes = batch.body.length;
    if (erased.length === 0) return { found: null, isUnreadable: false, bytes };
    const rest = withoutItems(batch, new Set(erased.map(({ position }) => position)));
    const found = {
      seq,
      record: recordOf(rest),
      freed: Math.max(0, batch.body.length - rest.body.length),
      batchId: batch.id,
      indexes: erased.map(({ position }) => batch.positions?.[position] ?? position),
      ids: erased.flatMap((item) => item.id ?? []),
      contents: contentsOfErased(items, erased),
      bytes: erased.reduce((sum, { bytes }) => sum + bytes, 0),
      unstored,
    };
    return { found, isUnreadable: false, bytes };
  };
}

/** The items to erase, and the traces that the store has no rows of and that the query names. */
type SelectedItems = {
  readonly erased: readonly BatchItem[];
  readonly unstored: readonly Key[];
};

function itemSelection(db: DatabaseSync) {
  const isListed = finds(db, 'SELECT 1 FROM erasure_traces WHERE erasure = ? AND key = ?');
  const isStored = finds(db, 'SELECT 1 FROM traces WHERE project = ? AND key = ?');
  const traceOfRun = rows<{ key: Key }>(
    db,
    `SELECT t.key FROM observations o CROSS JOIN traces t ON t.n = o.trace
     WHERE o.key = ? AND substr(o.key, 1, 1) <> ':' AND t.project = ?`,
  );
  const tracesOfCopy = rows<{ key: Key }>(
    db,
    `SELECT t.key FROM observations o INDEXED BY observations_by_copy
     CROSS JOIN traces t ON t.n = o.trace WHERE o.copy = ? AND t.project = ?`,
  );
  return (
    id: string,
    project: string,
    items: readonly BatchItem[],
    named: NamedValues | null,
  ): SelectedItems => {
    const unstored = (named === null ? [] : tracesNamed(items, named))
      .map(keyOfId)
      .filter((key) => !isStored(project, key) && !isListed(id, key));
    const added = new Set(unstored.map(nameOfKey));
    const isErased = ({ traceId, id: run, copy }: BatchItem): boolean => {
      if (copy !== null && tracesOfCopy.all(copy, project).some(({ key }) => isListed(id, key))) {
        return true;
      }
      if (traceId !== null) {
        const key = keyOfId(traceId);
        return isListed(id, key) || added.has(nameOfKey(key));
      }
      if (run === null) return false;
      return traceOfRun.all(keyOfId(run), project).some(({ key }) => isListed(id, key));
    };
    return { erased: items.filter(isErased), unstored };
  };
}

export function cleanOperations(db: DatabaseSync) {
  const close = db.prepare(
    'UPDATE erasure_batches SET is_open = 0 WHERE erasure = ? AND batch = ?',
  );
  const count = db.prepare('UPDATE erasures SET bytes = bytes + ? WHERE id = ?');
  const replace = batchReplacing(db);
  const release = attachmentReleasing(db);
  const free = db.prepare(
    `INSERT OR IGNORE INTO free_batches
     SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM batch_traces WHERE batch = ?1)`,
  );
  return {
    'erasing.note': (
      id: string,
      batchId: string,
      contents: readonly string[],
      bytes: number,
    ): void => {
      release(batchId, hashesOf(contents));
      count.run(bytes, id);
    },
    'erasing.cleaned': (id: string, batches: readonly number[]): void => {
      for (const seq of batches) close.run(id, seq);
    },
    /** Replaces a batch by its rest. Null if the batch is gone. */
    'erasing.rewrite': (
      id: string,
      seq: number,
      record: BatchRecord,
      parts: WrittenParts | null,
      { bytes, contents }: Pick<CleanedBatch, 'bytes' | 'contents'>,
    ): ShrunkBatch | null => {
      close.run(id, seq);
      release(record[RECORD.ID], hashesOf(contents));
      const shrunk = replace(seq, record, parts);
      if (shrunk === null) return null;
      count.run(bytes, id);
      if (shrunk.isEmpty) free.run(seq);
      return shrunk;
    },
    ...removalOperations(db),
  };
}

function hashesOf(contents: readonly string[]): Uint8Array[] {
  return contents.map((hash) => Buffer.from(hash, 'hex'));
}

type RemovedStep = {
  readonly traces: number;
  readonly observations: number;
  /** Whether a trace is left. */
  readonly hasMore: boolean;
  /** Whether a trace has events of a batch that is not cleaned: it stays until that is done. */
  readonly needsCleaning: boolean;
};

function removalOperations(db: DatabaseSync) {
  const nextOpen = rows<{ key: Key }>(
    db,
    `SELECT key FROM erasure_traces INDEXED BY open_erasure_traces
     WHERE erasure = ? AND is_open = 1 ORDER BY key LIMIT 1`,
  );
  const close = db.prepare('UPDATE erasure_traces SET is_open = 0 WHERE erasure = ? AND key = ?');
  const find = rows<{ n: number; observations: number }>(
    db,
    'SELECT n, observations FROM traces WHERE project = ? AND key = ?',
  );
  const unclean = db.prepare(
    `INSERT INTO erasure_batches
     SELECT ?1, b.batch, 1 FROM batch_traces b INDEXED BY batch_traces_by_trace
     LEFT JOIN erasure_batches e ON e.erasure = ?1 AND e.batch = b.batch
     WHERE b.trace = ?2 AND (e.batch IS NULL OR e.is_open = 1) LIMIT 1000
     ON CONFLICT DO UPDATE SET is_open = 1`,
  );
  const unwait = db.prepare(
    `DELETE FROM waiting_children WHERE project = ?1 AND EXISTS (
       SELECT 1 FROM observations o WHERE o.trace = ?2 AND o.key = waiting_children.key)`,
  );
  const hide = traceHiding(db);
  const count = db.prepare(
    'UPDATE erasures SET traces = traces + ?, observations = observations + ? WHERE id = ?',
  );
  const remove = traceRemoval(db);
  const deltas = new DeltaLog(db);
  const removeScores = db.prepare(
    `DELETE FROM scores WHERE project = ?1 AND trace = ?2
       AND NOT EXISTS (SELECT 1 FROM traces WHERE project = ?1 AND key = ?2)`,
  );
  return {
    /** Removes scores of traces that did not arrive. */
    'erasing.removeScores': (project: string, keys: readonly Key[]): void => {
      for (const key of keys) removeScores.run(project, key);
    },
    /** Removes some of the listed traces. A trace that is too large for one step is hidden, and removed as such. */
    'erasing.remove': (id: string, project: string): RemovedStep => {
      let traces = 0;
      let observations = 0;
      let needsCleaning = false;
      let hasMore = true;
      for (let rows = 0; rows < STEP_ROWS && !needsCleaning; ) {
        const key = nextOpen.get(id)?.key;
        hasMore = key !== undefined;
        if (key === undefined) break;
        const trace = find.get(project, key);
        rows += 1 + Math.min(trace?.observations ?? 0, STEP_ROWS);
        if (trace !== undefined) {
          needsCleaning = unclean.run(id, trace.n).changes > 0;
          if (needsCleaning) break;
          unwait.run(project, trace.n);
          deltas.subtract(trace.n);
          if (trace.observations > STEP_ROWS) hide(trace.n);
          else remove(trace.n, STEP_ROWS + 1);
          traces++;
          observations += trace.observations;
        }
        close.run(id, key);
      }
      count.run(traces, observations, id);
      return { traces, observations, hasMore, needsCleaning };
    },
  };
}
