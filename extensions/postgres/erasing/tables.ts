import type { Steps } from '../../../src/component/background.ts';
import type { Logger } from '../../../src/component/component.ts';
import { sweepAttachments } from '../../../src/store/attachments.ts';
import { withoutIds } from '../../../src/store/erasing/answers.ts';
import type { ErasingTables, ErasureScope, Stepping } from '../../../src/store/erasing/tables.ts';
import { keyOfId } from '../../../src/store/rows/observation-row.ts';
import { attachmentSweep } from '../attachments/sweep.ts';
import { removeUnreferenced } from '../batches/batches.ts';
import {
  hideTrace,
  oldestBatchOf,
  removeFreeOfProjectStep,
  removeHidden,
  removeWhole,
} from '../batches/purge.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import { rows } from '../connection/statement.ts';
import { lockWrites } from '../traces/locking.ts';
import { foldStep, subtractTraces } from '../traces/rollup-folding.ts';
import { bytesOfKey, escapeText } from '../traces/text.ts';
import type { CleaningParts } from './cleaning.ts';
import { clean, erasedItems, noteErased } from './cleaning.ts';
import { cutExpiredOf } from './expired.ts';
import { erasureListing, erasureProgress, erasureRequests } from './worklists.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** Rows, of observations and of other tables, that one step removes. */
const STEP = 1000;
/** Traces that one step removes. */
const STEP_TRACES = 200;
const WALK_ROWS = 200;
/** The tables whose rows erasures remove or rewrite. */
const VACUUMED = [
  ...[
    'batches',
    'partly_expired',
    'observations',
    'traces',
    'trace_keys',
    'batch_traces',
    'erasures',
    'erasure_traces',
  ],
  ...['rollups', 'rollup_deltas', 'payload_texts', 'text_changes'],
  ...['attachments', 'attachment_pieces', 'attachment_refs', 'attachment_holds'],
  ...['erasure_batches', 'erasure_items', 'queue_entries', 'queue_dead_letters', 'idempotency'],
];

export type PostgresErasingParts = CleaningParts & {
  /** For a VACUUM, which no transaction can have. */
  readonly outside: Pick<Postgres, 'query'>;
  readonly logger: Logger;
};

export function postgresErasingTables(parts: PostgresErasingParts): ErasingTables {
  const { database } = parts;
  const progress = erasureProgress(database);
  const vacuum = vacuuming(parts);
  return {
    ...erasureRequests(database, database),
    ...progress,
    ...erasureListing(database),
    itemsOf: (batch) => parts.cutter.items(batch),
    belonging: (scope, items) => erasedItems(database, scope, items),
    without: (batch, positions) => parts.cutter.without(batch, positions),
    noteErased: (scope, batch, erased) =>
      database.transaction(async (client) => {
        // A write that is under way may have looked before, and no row of the batch holds it up: it holds the project.
        await lockWrites(client, scope.project, true);
        await noteErased(client, scope, { ...erased, batch, now: parts.now() });
      }),
    clean: (scope) => clean(parts, scope),
    removeTraces: (scope) => removeTraces(parts, scope),
    removeBatches: (scope) => removeBatches(parts, scope),
    cleanAnswers: (scope) => cleanAnswers(database, scope),
    // The end starts a VACUUM.
    async *sweep({ project }) {
      while (await foldStep(database, project)) yield;
      yield* sweepAttachments(attachmentSweep(database, project), null);
    },
    async end(...args) {
      await progress.end(...args);
      const [, , , change] = args;
      if (change !== null) void vacuum();
    },
    copies: [
      ...['file_exporter', 'downstream', 'backups', 'other_processes', 'redis_log'],
      ...['write_ahead_log', 'dead_rows'],
    ],
  };
}

type OpenTrace = { readonly key: Buffer; readonly n: number | null; readonly observations: number };

async function* removeTraces(parts: PostgresErasingParts, scope: ErasureScope): Stepping<boolean> {
  const { database, onRemoved, now } = parts;
  const { project, named } = scope;
  const keys = (named?.users === null ? (named.ids ?? []) : []).map(keyOfId);
  // Scores of traces that did not arrive.
  await database.query(
    `DELETE FROM scores s WHERE s.project = $1 AND s.trace = ANY ($2::bytea[])
       AND NOT EXISTS (SELECT 1 FROM trace_keys k WHERE k.project = $1 AND k.key = s.trace)`,
    [project, keys.map(bytesOfKey)],
  );
  for (let hasMore = true; hasMore; ) {
    const step = await database.transaction((client) => removeStep(client, parts, scope));
    yield;
    if (step === 'needs cleaning') return false;
    hasMore = step === 'more';
  }
  while (await database.transaction((client) => removeHidden(client, now(), onRemoved))) yield;
  return true;
}

async function removeStep(
  client: PostgresTransaction,
  { onRemoved, now }: PostgresErasingParts,
  { id, project }: ErasureScope,
): Promise<'more' | 'done' | 'needs cleaning'> {
  const open = await rows<OpenTrace>(
    client,
    `SELECT e.key, t.n, coalesce(t.observations, 0) AS observations
     FROM erasure_traces e
     LEFT JOIN trace_keys k ON k.project = $2 AND k.key = e.key
     LEFT JOIN traces t ON t.n = k.n AND t.project = $2
     WHERE e.erasure = $1 AND e.is_open ORDER BY e.key LIMIT ${STEP_TRACES}`,
    [id, project],
  );
  if (open.length === 0) return 'done';
  const some = withinRows(open);
  const traces = some.flatMap(({ n }) => n ?? []);
  const done = new Set<number | null>([null]);
  if (traces.length > 0) {
    // In the order of their keys, as writers lock them.
    const locked = await rows<{ n: number; observations: number }>(
      client,
      `SELECT n, observations FROM traces WHERE n = ANY ($1::bigint[]) ORDER BY key FOR UPDATE`,
      [traces],
    );
    // A trace that got another number stays open (traces/retiring.ts).
    for (const { n } of locked) done.add(n);
    if (await listUnclean(client, id, traces)) return 'needs cleaning';
    await unwait(client, project, traces);
    await client.query(...subtractTraces(traces));
    const small = locked.filter(({ observations }) => observations <= STEP).map(({ n }) => n);
    if (small.length > 0) await removeWhole(client, small, now(), onRemoved);
    for (const { n, observations } of locked) if (observations > STEP) await hideTrace(client, n);
    const observations = locked.reduce((sum, each) => sum + each.observations, 0);
    await client.query(
      'UPDATE erasures SET traces = traces + $2, observations = observations + $3 WHERE id = $1',
      [id, locked.length, observations],
    );
  }
  await client.query(
    'UPDATE erasure_traces SET is_open = false WHERE erasure = $1 AND key = ANY ($2::bytea[])',
    [id, some.filter(({ n }) => done.has(n)).map(({ key }) => key)],
  );
  return 'more';
}

function withinRows(open: readonly OpenTrace[]): readonly OpenTrace[] {
  let sum = 0;
  return open.filter(({ observations }, i) => {
    sum += observations;
    return i === 0 || sum <= STEP;
  });
}

/** Lists the batches of the traces that are not cleaned yet; resolves with whether there are some. */
async function listUnclean(
  client: PostgresTransaction,
  id: string,
  traces: readonly number[],
): Promise<boolean> {
  const { rows: unclean } = await client.query(
    `INSERT INTO erasure_batches
     SELECT DISTINCT $1, b.batch, true FROM batch_traces b
     WHERE b.trace = ANY ($2::bigint[]) AND NOT EXISTS (
       SELECT 1 FROM erasure_batches e
       WHERE e.erasure = $1 AND e.batch = b.batch AND NOT e.is_open)
     LIMIT ${STEP}
     ON CONFLICT (erasure, batch) DO UPDATE SET is_open = true RETURNING 1`,
    [id, traces],
  );
  return unclean.length > 0;
}

/** Removes the notes of runs of the traces that wait for their parent. */
async function unwait(
  client: PostgresTransaction,
  project: string,
  traces: readonly number[],
): Promise<void> {
  await client.query(
    `DELETE FROM waiting_children w WHERE w.project = $1 AND EXISTS (
       SELECT 1 FROM observations o WHERE o.trace = ANY ($2::bigint[]) AND o.key = w.key)`,
    [project, traces],
  );
}

type KeptAnswer = { readonly hash: Buffer; readonly body: Buffer | null };

async function* cleanAnswers(database: Database, { id, project }: ErasureScope): Steps {
  for (let after: Buffer | undefined = Buffer.alloc(0); after !== undefined; ) {
    const page: readonly KeptAnswer[] = await rows<KeptAnswer>(
      database,
      `SELECT hash, CASE WHEN project = $2 THEN body END AS body FROM idempotency
       WHERE hash > $1 ORDER BY hash LIMIT ${WALK_ROWS}`,
      [after, project],
    );
    for (const answer of page) await cleanAnswer(database, id, answer);
    after = page.length === WALK_ROWS ? page.at(-1)?.hash : undefined;
    yield;
  }
}

async function cleanAnswer(
  database: Database,
  id: string,
  { hash, body }: KeptAnswer,
): Promise<void> {
  if (body === null) return;
  const ids: string[] = [];
  withoutIds(body, (item) => {
    ids.push(escapeText(item));
    return false;
  });
  if (ids.length === 0) return;
  const erased = await rows<{ id: string }>(
    database,
    'SELECT id FROM erasure_items WHERE erasure = $1 AND id = ANY ($2)',
    [id, ids],
  );
  const gone = new Set(erased.map((item) => item.id));
  const cleaned = withoutIds(body, (item) => gone.has(escapeText(item)));
  if (cleaned === undefined) return;
  // Another request may have the key since the answer was read.
  const update = 'UPDATE idempotency SET body = $2 WHERE hash = $1 AND body = $3';
  await database.query(update, [hash, cleaned, body]);
}

async function* removeBatches(parts: PostgresErasingParts, { id, project }: ErasureScope): Steps {
  const { database, onRemoved } = parts;
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: readonly { batch: string }[] = await rows<{ batch: string }>(
      database,
      `SELECT batch FROM erasure_batches WHERE erasure = $1 AND batch > $2
       ORDER BY batch LIMIT ${WALK_ROWS}`,
      [id, after],
    );
    const ids = page.map(({ batch }) => batch);
    await database.transaction((client) => removeUnreferenced(client, ids, onRemoved));
    after = ids.length === WALK_ROWS ? ids.at(-1) : undefined;
    yield;
  }
  // Of traces that retention has removed, so that no query finds them. Notes of days that were dropped stay for hours: those before
  // the first batch of the project are not read.
  const oldest = await oldestBatchOf(database, project);
  if (oldest === null) return;
  for (let after: string | undefined = ''; after !== undefined; ) {
    after = await removeFreeOfProjectStep(database, project, { oldest, after }, onRemoved);
    yield;
  }
  yield* cutExpiredOf(parts, project, oldest);
}

/**
 * Postgres keeps the former versions of rows until a VACUUM. It may take longer than the lease of the erasure holds, so it runs after the
 * end. The autovacuum does what this one is not allowed to do, or has no time for.
 */
async function vacuumAll({ outside, logger }: PostgresErasingParts): Promise<void> {
  for (const table of VACUUMED) {
    await outside.query(`VACUUM (SKIP_LOCKED) ${table}`).catch((error: unknown) => {
      logger.info({ err: error, table }, 'VACUUM after an erasure failed');
    });
  }
}

/** Erasures that end while a VACUUM runs share the next one. */
function vacuuming(parts: PostgresErasingParts): () => Promise<void> {
  let isRunning = false;
  let isWanted = false;
  return async () => {
    isWanted = true;
    if (isRunning) return;
    isRunning = true;
    while (isWanted) {
      isWanted = false;
      await vacuumAll(parts);
    }
    isRunning = false;
  };
}
