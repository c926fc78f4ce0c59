import type { PostgresClient, Question, Statement } from '../connection/statement.ts';
import { question, rows } from '../connection/statement.ts';

/**
 * Key of the accept lock, an advisory lock of a transaction. Transactions that accept data share it; deleting a
 * project, beginning an epoch and rebuilding usage windows hold it exclusively.
 */
export const LOCK = 7_227_322_002;

/**
 * Waits for every transaction that accepts data, and holds off further ones until this transaction ends. With `waitMs`
 * it fails after that time.
 */
export async function holdOffAccepting(client: PostgresClient, waitMs?: number): Promise<void> {
  if (waitMs !== undefined) {
    await client.query("SELECT set_config('lock_timeout', $1, true)", [`${waitMs}ms`]);
  }
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
}

/** Holds off deletions, epochs and rebuilds until the transaction ends. */
export const SHARE_ACCEPT_LOCK: Statement = ['SELECT pg_advisory_xact_lock_shared($1)', [LOCK]];

/** See `StoreDatabase`. */
export function lockForAccept(projectIds: readonly string[]): Question<ReadonlySet<string>> {
  return question(
    ['SELECT begin_accepting($1) AS project', [projectIds]],
    (deleted: readonly { project: string }[]) => new Set(deleted.map(({ project }) => project)),
  );
}

/** See `StoreDatabase`. */
export async function findDeletedProjects(
  client: PostgresClient,
  projectIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const deleted = await rows<{ project: string }>(
    client,
    'SELECT project FROM deleted_projects WHERE project = ANY ($1)',
    [projectIds],
  );
  return new Set(deleted.map(({ project }) => project));
}
