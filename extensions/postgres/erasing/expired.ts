/** Cuts items of expired traces out of batches that other traces keep. */
import type { Steps } from '../../../src/component/background.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { batchOf, RECORD, RECORD_COLUMNS, recordOf } from '../../../src/queue/record.ts';
import type { BatchClaims } from '../../../src/store/erasing/expired.ts';
import { expiredItems } from '../../../src/store/erasing/expired.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { contentsOfErased } from '../../../src/store/erasing/items.ts';
import type { CopyKey } from '../../../src/store/rows/copies.ts';
import { keyOfId, nameOfKey } from '../../../src/store/rows/observation-row.ts';
import { releaseStatement } from '../attachments/attachments.ts';
import type { BatchRow } from '../batches/batches.ts';
import { IS_USED, recordIn } from '../batches/batches.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { bytesOfKey, keyOfBytes } from '../traces/text.ts';
import type { CleaningParts } from './cleaning.ts';

/** Notes that one step reads. */
const STEP_NOTES = 1000;
/** How often a batch is looked at that changes while it is cut. */
const ATTEMPTS = 3;

type ExpiredItemsParts = Pick<CleaningParts, 'database' | 'cutter' | 'onRemoved'>;

/**
 * Cuts the items of expired traces out of the batches of a project that other traces keep, however young the notes of the batches are.
 * `oldest` is its first batch. Only the holder of the lease of erasures calls it, so that no batch is cut in two ways at once.
 */
export async function* cutExpiredOf(
  parts: ExpiredItemsParts,
  project: string,
  oldest: string,
): Steps {
  for (const table of ['free_batches', 'partly_expired'] as const) {
    yield* walkNotes(parts, { table, oldest, project });
  }
}

/** The same for all projects, of the batches whose note housekeeping has kept for a day. */
export async function* cutAllExpired(parts: ExpiredItemsParts): Steps {
  yield* walkNotes(parts, { table: 'partly_expired', oldest: '', project: null });
}

type NotesWalk = {
  readonly table: 'free_batches' | 'partly_expired';
  readonly oldest: string;
  readonly project: string | null;
};

async function* walkNotes(parts: ExpiredItemsParts, { table, oldest, project }: NotesWalk): Steps {
  const { database } = parts;
  for (let after: string | undefined = ''; after !== undefined; ) {
    const noted: readonly { id: string }[] = await rows<{ id: string }>(
      database,
      `SELECT id FROM ${table} WHERE id >= $1 AND id > $2 ORDER BY id LIMIT ${STEP_NOTES}`,
      [oldest, after],
    );
    const ids = noted.map(({ id }) => id);
    const batches = await rows<{ id: string; project: string; is_used: boolean }>(
      database,
      `SELECT id, project, ${IS_USED} AS is_used FROM batches b WHERE id = ANY ($1) ORDER BY id`,
      [ids],
    );
    const known = new Set(batches.map(({ id }) => id));
    if (table === 'partly_expired')
      await forget(
        database,
        ids.filter((id) => !known.has(id)),
      );
    yield;
    for (const batch of batches) {
      if (batch.is_used || (project !== null && batch.project !== project)) continue;
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const isDone = await cut(parts, batch.id);
        yield;
        if (isDone) break;
      }
    }
    after = noted.length === STEP_NOTES ? ids.at(-1) : undefined;
  }
}

async function forget(client: PostgresClient, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await client.query('DELETE FROM partly_expired WHERE id = ANY ($1)', [ids]);
}

/** Resolves with false if the batch changed since it was read. */
async function cut(
  { database, cutter, onRemoved }: ExpiredItemsParts,
  id: string,
): Promise<boolean> {
  const found = await row<BatchRow>(
    database,
    `SELECT ${RECORD_COLUMNS} FROM batches WHERE id = $1`,
    [id],
  );
  if (found === undefined) return true;
  let batch: SealedBatch;
  let items: readonly BatchItem[];
  try {
    batch = batchOf(recordIn(found));
    items = await cutter.items(batch);
  } catch {
    // Damaged: no reader finds its items.
    await forget(database, [id]);
    return true;
  }
  const { claims, traces } = await claimsOf(database, batch, items);
  const expired = expiredItems(items, claims);
  if (expired.length === 0) {
    await forget(database, [id]);
    return true;
  }
  const rest = await cutter.without(batch, new Set(expired.map(({ position }) => position)));
  const contents = contentsOfErased(items, expired);
  const part = { batch, rest, traces, contents };
  if (!(await database.transaction((client) => replace(client, part)))) return false;
  onRemoved({ bytes: Math.max(0, batch.body.length - rest.body.length) });
  return true;
}

type ExpiredPart = {
  readonly batch: SealedBatch;
  /** The batch without the items of expired traces. */
  readonly rest: SealedBatch;
  /** The numbers of the traces that had events of the batch. */
  readonly traces: readonly number[];
  /** The hashes of attachments that only the cut items of the batch have, in hex. */
  readonly contents: readonly string[];
};

/** Resolves with false if the batch is gone, has changed since it was read or got another trace: then it keeps its note. */
async function replace(
  client: PostgresTransaction,
  { batch, rest, traces, contents }: ExpiredPart,
): Promise<boolean> {
  // Waits for writes of the batch that are under way.
  await client.query('SELECT FROM batches WHERE id = $1 FOR UPDATE', [batch.id]);
  const record = recordOf(rest);
  const replaced = await row(
    client,
    `UPDATE batches b SET items = $2, positions = $3, body = $4
     WHERE id = $1 AND items = $5 AND NOT ${IS_USED} AND NOT EXISTS (
       SELECT 1 FROM batch_traces p WHERE p.batch = b.id AND p.trace <> ALL ($6::bigint[]))
     RETURNING 1 AS done`,
    [
      batch.id,
      ...[record[RECORD.ITEMS], record[RECORD.POSITIONS], record[RECORD.BODY]],
      ...[batch.items, traces],
    ],
  );
  if (replaced === undefined) return false;
  if (contents.length > 0) {
    const hashes = contents.map((hash) => Buffer.from(hash, 'hex'));
    await client.query(...releaseStatement(batch.id, hashes));
  }
  await forget(client, [batch.id]);
  return true;
}

async function claimsOf(
  client: PostgresClient,
  { id, tenant: { projectId } }: SealedBatch,
  items: readonly BatchItem[],
): Promise<{ readonly claims: BatchClaims; readonly traces: readonly number[] }> {
  // The key is null for traces that are being removed.
  const pairs = await rows<{ trace: number; key: Buffer | null }>(
    client,
    `SELECT p.trace, t.key FROM batch_traces p LEFT JOIN traces t ON t.n = p.trace AND t.project = $2
     WHERE p.batch = $1`,
    [id, projectId],
  );
  const ids = [...new Set(items.flatMap((item) => item.id ?? []))];
  const runs = await rows<{ key: Buffer }>(
    client,
    `SELECT o.key FROM observations o WHERE o.project = $1 AND o.key = ANY ($2::bytea[])
       AND substr(o.key, 1, 1) <> '\\x3a'::bytea`,
    [projectId, ids.map((item) => bytesOfKey(keyOfId(item)))],
  );
  const copies = await rows<{ copy: CopyKey }>(
    client,
    'SELECT DISTINCT copy FROM observations WHERE project = $1 AND copy = ANY ($2::text[])',
    [projectId, items.flatMap(({ copy }) => copy ?? [])],
  );
  const names = (found: readonly { readonly key: Buffer }[]): ReadonlySet<string> =>
    new Set(found.map(({ key }) => nameOfKey(keyOfBytes(key))));
  const claims = {
    traces: names(pairs.flatMap(({ key }) => (key === null ? [] : { key }))),
    runs: names(runs),
    copies: new Set(copies.map(({ copy }) => copy)),
  };
  return { claims, traces: pairs.map(({ trace }) => trace) };
}
