/** Reads and removes the requests that `recent-log.ts` writes, in the database threads. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, rows } from '../rows.ts';
import { deletedProjects } from './lookups.ts';
import { fingerprintOf } from './recent-index.ts';
import { recentBatch, recentEntries, recentEntry } from './recent-log.ts';
import type { WalkedPage } from './removal-operations.ts';

/** Expired rows that one step removes. */
const EXPIRE_ROWS = 1000;
/** Rows that one step of a walk reads. */
const WALK_ROWS = 2000;
/** Rows that one step of a start reads. */
const LOAD_ROWS = 20_000;
/** Groups that one step reads; a group has up to 1,024 requests. */
const STEP_GROUPS = 200;

/** The answer to a request in the log; the last three are null if all items were accepted. */
export type RecentAnswer = {
  readonly batch: string;
  readonly status: number | null;
  readonly contentType: string | null;
  readonly body: Uint8Array | null;
};

/** Fingerprint, sequence number and end of each of some requests, one behind the other. */
export type RecentPage = {
  readonly entries: Float64Array;
  /** Where the next page begins; null at the end. */
  readonly next: number | null;
};

export function recentOperations(db: DatabaseSync) {
  const expireRows = expiry(db, 'recent_requests', 'seq');
  const expireGroups = expiry(db, 'recent_groups', 'last_seq');
  const remove = db.prepare('DELETE FROM recent_requests WHERE seq = ?');
  const entriesOf = cell<string>(db, 'SELECT entries FROM recent_groups WHERE last_seq = ?');
  const saveGroup = db.prepare('UPDATE recent_groups SET entries = ? WHERE last_seq = ?');
  const removeGroup = db.prepare('DELETE FROM recent_groups WHERE last_seq = ?');
  return {
    /** Removes some expired rows from the heads of the log; returns whether there may be more. */
    'recent.expire': (now: number): boolean => {
      const hasMoreRows = expireRows(now);
      return expireGroups(now) || hasMoreRows;
    },
    'recent.remove': (seqs: readonly number[]): void => {
      for (const seq of seqs) remove.run(seq);
    },
    /** Removes the requests of the project from the groups with these numbers. */
    'recent.removeFromGroups': (project: string, lastSeqs: readonly number[]): void => {
      for (const lastSeq of lastSeqs) {
        const kept = recentEntries(entriesOf(lastSeq) ?? '').filter(
          (one) => one.project !== project,
        );
        const text = kept.map((one) => recentEntry(one.tag, one.project, one.batch)).join('');
        if (text === '') removeGroup.run(lastSeq);
        else saveGroup.run(text, lastSeq);
      }
    },
  };
}

/** Returns a function that removes some expired rows from the head of a table; it returns whether there may be more. */
function expiry(db: DatabaseSync, table: string, number: string): (now: number) => boolean {
  const oldest = rows<{ seq: number; expiresAt: number }>(
    db,
    `SELECT ${number} AS seq, expires_at AS expiresAt FROM ${table} ORDER BY ${number} LIMIT ?`,
  );
  const removeUpTo = db.prepare(`DELETE FROM ${table} WHERE ${number} <= ?`);
  return (now) => {
    const head = oldest.all(EXPIRE_ROWS);
    const kept = head.findIndex(({ expiresAt }) => expiresAt > now);
    const expired = kept === -1 ? head : head.slice(0, kept);
    const last = expired.at(-1);
    if (last !== undefined) removeUpTo.run(last.seq);
    return expired.length === EXPIRE_ROWS;
  };
}

export function recentReadOperations(db: DatabaseSync) {
  const walk = rows<{ seq: number; project: string }>(
    db,
    `SELECT seq, project FROM recent_requests WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const groups = groupPage(db);
  return {
    'recent.answer': answerOf(db),
    ...pageOperations(db),
    /** One step over all requests with a row of their own; finds the numbers of those of the project. */
    'recent.ofProject': (project: string, after: number): WalkedPage<number, number> => {
      const all = walk.all(after);
      const found = all.filter((row) => row.project === project).map(({ seq }) => seq);
      return { found, next: all.length < WALK_ROWS ? null : (all.at(-1)?.seq ?? null) };
    },
    /** One step over all groups; finds the numbers of those that have a request of the project. */
    'recent.groupsOfProject': (project: string, after: number): WalkedPage<number, number> => {
      const { found: all, next } = groups(after);
      const has = ({ entries }: Group) =>
        recentEntries(entries).some((one) => one.project === project);
      return { found: all.filter(has).map(({ seq }) => seq), next };
    },
  };
}

/** Returns a function that reads the answer of a request, if the log has it with the tag and it has not expired. */
function answerOf(db: DatabaseSync) {
  const find = rows<RecentAnswer>(
    db,
    `SELECT batch, status, content_type AS contentType, body FROM recent_requests
     WHERE seq = ? AND tag = ? AND project = ? AND expires_at > ?`,
  );
  const group = rows<{ entries: string; expiresAt: number }>(
    db,
    `SELECT entries, expires_at AS expiresAt FROM recent_groups
     WHERE last_seq >= ? ORDER BY last_seq LIMIT 1`,
  );
  const isDeleted = deletedProjects(db);
  return (seq: number, tag: string, project: string, now: number): RecentAnswer | null => {
    if (isDeleted(project)) return null;
    const row = find.get(seq, tag, project, now);
    if (row !== undefined) return row;
    const { entries, expiresAt } = group.get(seq) ?? { entries: '', expiresAt: 0 };
    const batch = expiresAt > now ? recentBatch(entries, tag, project) : undefined;
    return batch === undefined ? null : { batch, status: null, contentType: null, body: null };
  };
}

/** The reads of a start. */
function pageOperations(db: DatabaseSync) {
  const page = rows<{ seq: number; tag: string; project: string; expiresAt: number }>(
    db,
    `SELECT seq, tag, project, expires_at AS expiresAt FROM recent_requests
     WHERE seq > ? ORDER BY seq LIMIT ${LOAD_ROWS}`,
  );
  const groups = groupPage(db);
  return {
    /** One step over the requests with a row of their own that have not expired, in their order. */
    'recent.page': (after: number, now: number): RecentPage => {
      const found = page.all(after);
      const valid = found.filter(({ expiresAt }) => expiresAt > now);
      const entries = valid.flatMap(({ seq, tag, project, expiresAt }) => [
        fingerprintOf(tag, project),
        seq,
        expiresAt,
      ]);
      const next = found.length < LOAD_ROWS ? null : (found.at(-1)?.seq ?? null);
      return { entries: new Float64Array(entries), next };
    },
    /** One step over the requests of groups that have not expired, in their order. Each has the number of its group. */
    'recent.groupPage': (after: number, now: number): RecentPage => {
      const { found, next } = groups(after);
      const valid = found.filter(({ expiresAt }) => expiresAt > now);
      const entries = valid.flatMap(({ seq, expiresAt, entries: lines }) =>
        recentEntries(lines).flatMap(({ tag, project }) => [
          fingerprintOf(tag, project),
          seq,
          expiresAt,
        ]),
      );
      return { entries: new Float64Array(entries), next };
    },
  };
}

type Group = { readonly seq: number; readonly expiresAt: number; readonly entries: string };

/** Returns a function that reads the next groups. */
function groupPage(db: DatabaseSync): (after: number) => WalkedPage<Group, number> {
  const page = rows<Group>(
    db,
    `SELECT last_seq AS seq, expires_at AS expiresAt, entries FROM recent_groups
     WHERE last_seq > ? ORDER BY last_seq LIMIT ${STEP_GROUPS}`,
  );
  return (after) => {
    const found = page.all(after);
    return { found, next: found.length < STEP_GROUPS ? null : (found.at(-1)?.seq ?? null) };
  };
}
