import type { PostgresClient, Question } from '../connection/statement.ts';

/** Any number that nobody else locks: shared by all that accept, held alone by what they must not overlap. */
export const LOCK = 7_227_322_002;

/** Waits for all that accept now; who comes after sees what this transaction did. */
export async function stopAccepting(client: PostgresClient): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
}

/** Begins a transaction that accepts. Of these projects those that are deleted; the others stay until it ends. */
export function beginAccepting(projectIds: readonly string[]): Question<ReadonlySet<string>> {
  return {
    statement: ['SELECT begin_accepting($1) AS project', [projectIds]],
    answer: (rows) => new Set(rows.map(({ project }) => String(project))),
  };
}
