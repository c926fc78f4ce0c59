import type { DropReason } from '../../../src/queue/queue.ts';
import { MISSING_BODY } from '../../../src/queue/record.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import * as sql from './statements.ts';

/** Rows that one step removes from one table. */
const STEP = 1000;

/** Called for every entry that left a branch or its dead letters. */
export type OnDropped = (
  branch: number,
  items: number,
  reason: DropReason,
  wasDead: boolean,
) => void;

type Dropped = { readonly branch: number; readonly items: number };

/** Rows that one step looks at. */
const PAGE = 5_000;

/**
 * Tables without an index over the project, which every accepted request would have to maintain. They are walked in the
 * order of their key, from below the first one.
 */
const WALKS = {
  queue_entries: { key: ['branch', 'batch_id'], first: [0, ''], removed: 'branch, items' },
  idempotency: { key: ['hash'], first: ['\\x'], removed: '0 AS branch, 0 AS items' },
} as const;

/**
 * Removes the entries, dead letters and idempotency records of a deleted project, into which no request writes any more.
 * Yields after each bounded step.
 */
export async function* removeEntries(
  client: PostgresClient,
  projectId: string,
  onDropped: OnDropped,
): AsyncGenerator<undefined, void, undefined> {
  const drop = (removed: readonly Dropped[], wasDead: boolean): void => {
    for (const { branch, items } of removed) onDropped(branch, items, 'project_deleted', wasDead);
  };
  // A replay enters a dead letter into the queue, and a delivery that fails makes a dead letter of an entry.
  for await (const removed of removeDeadLetters(client, projectId)) {
    drop(removed, true);
    yield;
  }
  for await (const removed of removeAlong(client, 'queue_entries', projectId)) {
    drop(removed, false);
    yield;
  }
  for await (const removed of removeDeadLetters(client, projectId)) {
    drop(removed, true);
    yield;
  }
  for await (const _ of removeAlong(client, 'idempotency', projectId)) yield;
}

async function* removeDeadLetters(
  client: PostgresClient,
  projectId: string,
): AsyncGenerator<readonly Dropped[], void, undefined> {
  let removed: readonly Dropped[];
  do {
    removed = await rows<Dropped>(
      client,
      `DELETE FROM queue_dead_letters WHERE id IN (
         SELECT id FROM queue_dead_letters WHERE project = $1 LIMIT ${STEP})
       RETURNING branch, items`,
      [projectId],
    );
    yield removed;
  } while (removed.length === STEP);
}

/** Removes the project's rows page by page; yields those of each. */
async function* removeAlong(
  client: PostgresClient,
  table: keyof typeof WALKS,
  projectId: string,
): AsyncGenerator<readonly Dropped[], void, undefined> {
  const { key, first, removed } = WALKS[table];
  const columns = key.join(', ');
  const after = key.map((_, i) => `$${i + 2}`).join(', ');
  const sql = `
    WITH page AS MATERIALIZED (
      SELECT ${columns}, project FROM ${table} WHERE (${columns}) > (${after})
      ORDER BY ${columns} LIMIT ${PAGE}),
    removed AS (
      DELETE FROM ${table} WHERE (${columns}) IN (SELECT ${columns} FROM page WHERE project = $1)
      RETURNING ${removed}),
    last AS (SELECT ${columns} FROM page ORDER BY ${columns} DESC LIMIT 1)
    SELECT ARRAY[${key.map((column) => `last.${column}::text`).join(', ')}] AS last, removed.*
    FROM last LEFT JOIN removed ON true`;
  let from: readonly unknown[] = first;
  for (;;) {
    const found = await rows<Walked>(client, sql, [projectId, ...from]);
    const [any] = found;
    if (any === undefined) return;
    from = any.last;
    yield found.flatMap(({ branch, items }) =>
      branch === null || items === null ? [] : [{ branch, items }],
    );
  }
}

type Walked = {
  /** The key of the last row of the page, as text. */
  readonly last: readonly string[];
  /** Of a removed row; null without one. */
  readonly branch: number | null;
  readonly items: number | null;
};

/**
 * Removes a bounded number of dead letters of a project that were received before `since`, in milliseconds since the
 * epoch. Resolves with whether there may be more.
 */
export async function expireDeadLettersStep(
  client: PostgresClient,
  projectId: string,
  since: number,
  onDropped: OnDropped,
): Promise<boolean> {
  const removed = await rows<Dropped>(
    client,
    `DELETE FROM queue_dead_letters WHERE id IN (
       SELECT id FROM queue_dead_letters WHERE project = $1 AND received_at < $2 LIMIT ${STEP})
     RETURNING branch, items`,
    [projectId, since],
  );
  for (const { branch, items } of removed) onDropped(branch, items, 'retention', true);
  return removed.length === STEP;
}

/** Reads every batch that waits in a queue, and quarantines those without a body. */
export async function verifyQueue(
  database: StoreDatabase,
  queue: string,
  now: number,
): Promise<{ entries: number; quarantined: number }> {
  let entries = 0;
  let quarantined = 0;
  let after = '';
  for (;;) {
    const page = await rows<{ batch_id: string }>(database, sql.PAGE, [queue, after]);
    if (page.length === 0) return { entries, quarantined };
    const ids = page.map(({ batch_id }) => batch_id);
    const read = await database.readBatches(ids);
    for (const id of ids) {
      if (read.has(id)) continue;
      quarantined++;
      await database.query(sql.QUARANTINE, [queue, id, MISSING_BODY, now]);
    }
    entries += ids.length;
    after = ids.at(-1) ?? '';
  }
}
