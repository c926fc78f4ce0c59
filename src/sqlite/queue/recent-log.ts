/**
 * The log of requests without an `Idempotency-Key`, in the writing thread. The requests of a group of appends become one row at
 * its end: a row for each costs 3 µs, a line of a row 0.4 µs. The rows outlive the batches: a queue removes the body of a delivered
 * batch. `RecentRequests` finds a request.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../queue/record.ts';
import { RECORD } from '../../queue/record.ts';
import type { GroupEnd } from '../operation.ts';

/** The answer to a request of which some items were not accepted. */
export type ItemizedAnswer = readonly [status: number, contentType: string, body: Uint8Array];

export type LoggedRequest = {
  readonly tag: string;
  readonly project: string;
  readonly batch: string;
};

export type RecentLog = GroupEnd & {
  /** Logs the request of a new batch, whose items were all accepted. */
  add(seq: number, tag: string, expiresAt: number, record: BatchRecord): void;
  /** Logs any request, in a row of its own. */
  addRow(
    seq: number,
    tag: string,
    expiresAt: number,
    record: BatchRecord,
    answer: ItemizedAnswer | null,
  ): void;
};

const logs = new WeakMap<DatabaseSync, RecentLog>();

/** One log for each connection. */
export function recentLog(db: DatabaseSync): RecentLog {
  const known = logs.get(db);
  if (known !== undefined) return known;
  const log = createLog(db);
  logs.set(db, log);
  return log;
}

function createLog(db: DatabaseSync): RecentLog {
  const insert = db.prepare(
    'INSERT OR REPLACE INTO recent_requests VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  );
  const insertGroup = db.prepare('INSERT INTO recent_groups VALUES (?, ?, ?)');
  let entries = '';
  let lastSeq = 0;
  let latestEnd = 0;
  const clear = (): void => {
    entries = '';
    latestEnd = 0;
  };
  return {
    add(seq, tag, expiresAt, record) {
      entries += recentEntry(tag, record[RECORD.PROJECT], record[RECORD.ID]);
      lastSeq = seq;
      latestEnd = Math.max(latestEnd, expiresAt);
    },
    addRow(seq, tag, expiresAt, record, answer) {
      const [status, contentType, body] = answer ?? [null, null, null];
      const [project, batch] = [record[RECORD.PROJECT], record[RECORD.ID]];
      insert.run(seq, tag, expiresAt, project, batch, status, contentType, body);
    },
    beforeCommit() {
      if (entries === '') return;
      insertGroup.run(lastSeq, latestEnd, entries);
      clear();
    },
    rolledBack: clear,
  };
}

/** A tag is base64 and the id of a batch a ULID, so neither needs an escape. */
export function recentEntry(tag: string, project: string, batch: string): string {
  return `${prefixOf(tag, project)}${batch}"]\n`;
}

function prefixOf(tag: string, project: string): string {
  return `["${tag}",${JSON.stringify(project)},"`;
}

/** The batch of the newest entry with the tag. */
export function recentBatch(entries: string, tag: string, project: string): string | undefined {
  const prefix = prefixOf(tag, project);
  const at = entries.lastIndexOf(prefix);
  if (at === -1) return undefined;
  const from = at + prefix.length;
  return entries.slice(from, entries.indexOf('"', from));
}

/** The requests of a row. A damaged line is left out. */
export function recentEntries(entries: string): LoggedRequest[] {
  return entries.split('\n').flatMap((line) => {
    const [tag, project, batch] = partsOf(line);
    if (tag === undefined || project === undefined || batch === undefined) return [];
    return [{ tag, project, batch }];
  });
}

function partsOf(line: string): readonly string[] {
  try {
    return JSON.parse(line) as readonly string[];
  } catch {
    return [];
  }
}
