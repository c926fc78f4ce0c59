/** Attachments, in the database threads. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { deletedProjects } from '../../../src/sqlite/queue/lookups.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { AttachmentRef } from '../../../src/store/attachments.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';

/** Rows that one step removes. */
const STEP_ROWS = 200;
/** Rows that one step of a walk reads. */
const WALK_ROWS = 1000;

/** A content to be held; without `whole` its pieces follow one by one. */
type HeldContent = {
  readonly sha256: Uint8Array;
  readonly contentType: string;
  readonly bytes: number;
  readonly whole: Uint8Array | null;
};

/** A row of `attachments`. */
export type ContentName = { readonly project: string; readonly sha256: Uint8Array };
/** A row of `attachment_refs`. */
export type RefName = ContentName & { readonly key: Key };
/** A page of a walk, and the place of its last row; null at the end. */
type Walked<Row> = { readonly found: readonly Row[]; readonly next: Row | null };

const NO_BYTES = new Uint8Array(0);

// Cross joins keep the planner from reading all traces of the project first.
/** Whether an observation, or an update that waits for its run, has the key of a reference `r`. */
const IS_REFERRED = `(
  EXISTS (SELECT 1 FROM observations o CROSS JOIN traces t ON t.n = o.trace AND t.project = r.project
    WHERE o.key = r.key AND substr(o.key, 1, 1) <> ':')
  OR EXISTS (SELECT 1 FROM pending_updates u WHERE u.project = r.project AND u.key = r.key))`;
/** Whether a batch or an observation holds a content `a`. */
const IS_HELD = `(
  EXISTS (SELECT 1 FROM attachment_refs r WHERE r.project = a.project AND r.sha256 = a.sha256)
  OR EXISTS (SELECT 1 FROM attachment_holds h WHERE h.project = a.project AND h.sha256 = a.sha256))`;

export function attachmentOperations(db: DatabaseSync) {
  return { ...storing(db), ...removing(db) };
}

function storing(db: DatabaseSync) {
  const isDeleted = deletedProjects(db);
  const hold = db.prepare('INSERT OR IGNORE INTO attachment_holds VALUES (?, ?, ?)');
  const release = attachmentReleasing(db);
  const add = db.prepare('INSERT OR IGNORE INTO attachments VALUES (?, ?, ?, ?, 0)');
  const isComplete = finds(
    db,
    'SELECT 1 FROM attachments WHERE project = ? AND sha256 = ? AND is_complete = 1',
  );
  const addPiece = db.prepare(
    'INSERT OR IGNORE INTO attachment_pieces (project, sha256, piece, bytes) VALUES (?, ?, ?, ?)',
  );
  const complete = db.prepare(
    `UPDATE attachments SET is_complete = 1 WHERE project = ?1 AND sha256 = ?2 AND bytes = (
       SELECT coalesce(sum(length(p.bytes)), 0) FROM attachment_pieces p
       WHERE p.project = ?1 AND p.sha256 = ?2)`,
  );
  return {
    /** Returns whether each content is stored as a whole; null if the project was deleted. */
    'attachments.hold': (
      project: string,
      batch: string,
      contents: readonly HeldContent[],
    ): boolean[] | null => {
      if (isDeleted(project)) return null;
      return contents.map(({ sha256, contentType, bytes, whole }) => {
        hold.run(batch, project, sha256);
        add.run(project, sha256, bytes, contentType);
        if (isComplete(project, sha256)) return true;
        if (whole === null) return false;
        if (bytes > 0) addPiece.run(project, sha256, 0, whole);
        return complete.run(project, sha256).changes > 0;
      });
    },
    /** Returns whether the content is stored as a whole. */
    'attachments.addPiece': (
      project: string,
      sha256: Uint8Array,
      piece: number,
      [bytes]: readonly [Uint8Array],
    ): boolean => {
      if (isComplete(project, sha256)) return true;
      addPiece.run(project, sha256, piece, bytes);
      return complete.run(project, sha256).changes > 0;
    },
    'attachments.release': release,
  };
}

/** Returns a function that makes observations hold the contents of their batch in its place. */
export function attachmentReferring(
  db: DatabaseSync,
): (project: string, batch: string, refs: readonly AttachmentRef[]) => void {
  const refer = db.prepare(
    `INSERT OR IGNORE INTO attachment_refs
     SELECT project, sha256, ?3 FROM attachments WHERE project = ?1 AND sha256 = ?2`,
  );
  const release = attachmentReleasing(db);
  return (project, batch, refs) => {
    for (const [key, sha256] of refs) refer.run(project, sha256, key);
    if (refs.length > 0)
      release(
        batch,
        refs.map(([, sha256]) => sha256),
      );
  };
}

/** Returns a function that ends the holds of a batch on some contents, or on all (null). */
export function attachmentReleasing(
  db: DatabaseSync,
): (batch: string, contents: readonly Uint8Array[] | null) => void {
  const all = db.prepare('DELETE FROM attachment_holds WHERE batch = ?');
  const one = db.prepare('DELETE FROM attachment_holds WHERE batch = ? AND sha256 = ?');
  return (batch, contents) => {
    if (contents === null) all.run(batch);
    else for (const sha256 of contents) one.run(batch, sha256);
  };
}

function removing(db: DatabaseSync) {
  const oldHolds = db.prepare(
    `DELETE FROM attachment_holds WHERE (batch, sha256) IN (
       SELECT batch, sha256 FROM attachment_holds h
       WHERE batch < ? AND NOT EXISTS (SELECT 1 FROM raw_batches r WHERE r.id = h.batch)
       LIMIT ${STEP_ROWS})`,
  );
  const removeRef = db.prepare(
    `DELETE FROM attachment_refs AS r
     WHERE r.project = ? AND r.sha256 = ? AND r.key = ? AND NOT ${IS_REFERRED}`,
  );
  const begin = db.prepare(
    `UPDATE attachments AS a SET is_complete = 0 WHERE project = ? AND sha256 = ? AND NOT ${IS_HELD}`,
  );
  const removePiece = db.prepare(
    `DELETE FROM attachment_pieces WHERE n = (
       SELECT n FROM attachment_pieces WHERE project = ? AND sha256 = ? LIMIT 1)`,
  );
  const remove = db.prepare('DELETE FROM attachments WHERE project = ? AND sha256 = ?');
  const first = rows<ContentName>(
    db,
    'SELECT project, sha256 FROM attachments WHERE project = ? LIMIT 1',
  );
  const holdsOf = db.prepare(
    `DELETE FROM attachment_holds WHERE (batch, sha256) IN (
       SELECT batch, sha256 FROM attachment_holds WHERE project = ? LIMIT ${STEP_ROWS})`,
  );
  const refsOf = db.prepare(
    `DELETE FROM attachment_refs WHERE (project, sha256, key) IN (
       SELECT project, sha256, key FROM attachment_refs WHERE project = ? LIMIT ${STEP_ROWS})`,
  );
  /** Removes a piece, or the content after its last piece; returns whether there may be more. */
  const step = (project: string, sha256: Uint8Array): boolean => {
    if (begin.run(project, sha256).changes === 0) return false;
    if (removePiece.run(project, sha256).changes > 0) return true;
    remove.run(project, sha256);
    return false;
  };
  return {
    'attachments.removeHolds': (before: string): boolean =>
      Number(oldHolds.run(before).changes) === STEP_ROWS,
    'attachments.removeRefs': (refs: readonly RefName[]): void => {
      for (const { project, sha256, key } of refs) removeRef.run(project, sha256, key);
    },
    'attachments.remove': step,
    /** Removes a step of what a deleted project has; returns whether there may be more. */
    'attachments.removeOf': (project: string): boolean => {
      if (Number(holdsOf.run(project).changes) === STEP_ROWS) return true;
      if (Number(refsOf.run(project).changes) === STEP_ROWS) return true;
      const content = first.get(project);
      if (content === undefined) return false;
      step(project, content.sha256);
      return true;
    },
  };
}

export function attachmentReadOperations(db: DatabaseSync) {
  const find = rows<{ bytes: number; contentType: string }>(
    db,
    `SELECT bytes, content_type AS contentType FROM attachments a
     WHERE project = ?1 AND sha256 = ?2 AND is_complete = 1 AND EXISTS (
       SELECT 1 FROM attachment_refs r
       CROSS JOIN observations o ON o.key = r.key AND substr(o.key, 1, 1) <> ':'
       CROSS JOIN traces t ON t.n = o.trace AND t.project = ?1 AND t.updated_at >= ?3
       WHERE r.project = ?1 AND r.sha256 = ?2)`,
  );
  const piece = cell<Uint8Array>(
    db,
    'SELECT bytes FROM attachment_pieces WHERE project = ? AND sha256 = ? AND piece = ?',
  );
  const walkRefs = rows<RefName & { isGone: 0 | 1 }>(
    db,
    `SELECT project, sha256, key, NOT ${IS_REFERRED} AS isGone FROM attachment_refs r
     WHERE (project, sha256, key) > (?, ?, ?) ORDER BY project, sha256, key LIMIT ${WALK_ROWS}`,
  );
  const walk = rows<ContentName & { isFree: 0 | 1 }>(
    db,
    `SELECT project, sha256, NOT ${IS_HELD} AS isFree FROM attachments a
     WHERE (project, sha256) > (?, ?) ORDER BY project, sha256 LIMIT ${WALK_ROWS}`,
  );
  return {
    'attachments.find': (
      { project, since }: TraceScope,
      sha256: Uint8Array,
    ): { bytes: number; contentType: string } | null => find.get(project, sha256, since) ?? null,
    'attachments.piece': (
      project: string,
      sha256: Uint8Array,
      position: number,
    ): Uint8Array | null => piece(project, sha256, position) ?? null,
    /** References to observations that are gone. */
    'attachments.goneRefs': (of: string | null, after: RefName | null): Walked<RefName> => {
      const place: SQLInputValue[] =
        after === null ? [of ?? '', NO_BYTES, 0] : [after.project, after.sha256, after.key];
      return pageOf(of, walkRefs.all(...place), ({ isGone }) => isGone === 1);
    },
    /** Contents that nothing holds. */
    'attachments.free': (of: string | null, after: ContentName | null): Walked<ContentName> => {
      const page = walk.all(after?.project ?? of ?? '', after?.sha256 ?? NO_BYTES);
      return pageOf(of, page, ({ isFree }) => isFree === 1);
    },
  };
}

/** The wanted rows of a page, of one project or of all. */
function pageOf<Row extends ContentName>(
  of: string | null,
  page: readonly Row[],
  isWanted: (row: Row) => boolean,
): Walked<Row> {
  const last = page.at(-1);
  const isLast = page.length < WALK_ROWS || (of !== null && last?.project !== of);
  const found = page.filter((row) => (of === null || row.project === of) && isWanted(row));
  return { found, next: isLast ? null : (last ?? null) };
}
