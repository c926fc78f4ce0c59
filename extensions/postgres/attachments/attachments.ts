/** Attachments (src/store/attachments.ts). */
import { StoreError } from '../../../src/model/errors.ts';
import type {
  AttachmentRef,
  AttachmentStore,
  NewAttachment,
} from '../../../src/store/attachments.ts';
import { PIECE_BYTES } from '../../../src/store/attachments.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient, Statement } from '../connection/statement.ts';
import { ask, row } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import { bytesOfKey } from '../traces/text.ts';
import type { RetentionWindows } from '../traces/traces.ts';

/** $3: the time before which traces are expired. */
const FIND = `
  SELECT bytes, content_type FROM attachments a
  WHERE project = $1 AND sha256 = $2 AND EXISTS (
    SELECT 1 FROM attachment_refs r
    JOIN observations o ON o.project = $1 AND o.key = r.key AND substr(o.key, 1, 1) <> '\\x3a'::bytea
    JOIN traces t ON t.n = o.trace AND t.project = $1 AND t.updated_at >= $3
    WHERE r.project = $1 AND r.sha256 = $2)`;

/** `reading`: for the answers of the read API. */
export function postgresAttachments(
  database: StoreDatabase,
  retention: RetentionWindows,
  reading: PostgresClient,
): AttachmentStore {
  return {
    async put(projectId, batchId, contents) {
      await database.transaction(async (client) => {
        const deleted = await ask(client, database.lockForAccept([projectId]));
        if (deleted.has(projectId))
          throw new StoreError('unknown_project', 'the project was deleted');
        for (const content of inOrder(contents)) await put(client, projectId, batchId, content);
      });
    },
    async release(batchId, contents) {
      await database.query(...releaseStatement(batchId, contents));
    },
    async find(projectId, sha256) {
      const found = await row<{ bytes: number; content_type: string }>(reading, FIND, [
        ...[projectId, sha256, retention.since(projectId)],
      ]);
      return found && { bytes: found.bytes, contentType: found.content_type };
    },
    async read(projectId, sha256, piece) {
      const found = await row<{ bytes: Buffer }>(
        reading,
        'SELECT bytes FROM attachment_pieces WHERE project = $1 AND sha256 = $2 AND piece = $3',
        [projectId, sha256, piece],
      );
      return found?.bytes;
    },
  };
}

/** Two requests with the same contents lock their rows in the same order. */
function inOrder(contents: readonly NewAttachment[]): readonly NewAttachment[] {
  return contents.toSorted((a, b) => Buffer.compare(a.sha256, b.sha256));
}

async function put(
  client: PostgresTransaction,
  projectId: string,
  batchId: string,
  { sha256, contentType, content }: NewAttachment,
): Promise<void> {
  await client.query('INSERT INTO attachment_holds VALUES ($1, $2, $3) ON CONFLICT DO NOTHING', [
    ...[batchId, projectId, sha256],
  ]);
  // Locks the row of a known content, so that the removal of free ones waits, and sees the hold.
  const known = await row<{ is_new: boolean }>(
    client,
    `INSERT INTO attachments VALUES ($1, $2, $3, $4)
     ON CONFLICT (project, sha256) DO UPDATE SET bytes = excluded.bytes RETURNING xmax = 0 AS is_new`,
    [projectId, sha256, content.length, contentType],
  );
  if (known?.is_new !== true) return;
  for (let at = 0; at < content.length; at += PIECE_BYTES) {
    await client.query('INSERT INTO attachment_pieces VALUES ($1, $2, $3, $4)', [
      ...[projectId, sha256, at / PIECE_BYTES, content.subarray(at, at + PIECE_BYTES)],
    ]);
  }
}

/** Observations hold the contents of their batch in its place. */
export function attachmentStatements(
  projectId: string,
  batchId: string,
  refs: readonly AttachmentRef[],
): Statement[] {
  if (refs.length === 0) return [];
  const keys = refs.map(([key]) => bytesOfKey(key));
  const hashes = refs.map(([, sha256]) => Buffer.from(sha256));
  return [
    [
      `INSERT INTO attachment_refs
       SELECT a.project, a.sha256, g.key FROM unnest($2::bytea[], $3::bytea[]) AS g (sha256, key)
       JOIN attachments a ON a.project = $1 AND a.sha256 = g.sha256
       ON CONFLICT DO NOTHING`,
      [projectId, hashes, keys],
    ],
    releaseStatement(batchId, hashes),
  ];
}

/** The batch holds the contents no longer; all of them by default. */
export function releaseStatement(batchId: string, contents?: readonly Buffer[]): Statement {
  return [
    'DELETE FROM attachment_holds WHERE batch = $1 AND ($2::bytea[] IS NULL OR sha256 = ANY ($2))',
    [batchId, contents ?? null],
  ];
}
