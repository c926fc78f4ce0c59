import type { Backlog } from '../../../src/store/backlog.ts';
import { LOOKED_AT, leadsTo } from '../../../src/store/backlog.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';

export function postgresBacklog(client: PostgresClient): Backlog {
  return {
    async newest(projectId, upTo) {
      let newest: string | null = null;
      for (const branch of await branchesOf(client)) {
        const mark = await newestIn(client, branch, projectId, upTo);
        if (mark !== null && (newest === null || mark > newest)) newest = mark;
      }
      return newest;
    },
  };
}

/** Two statements: the ids of the branches, and what waits in one. */
async function branchesOf(client: PostgresClient): Promise<readonly number[]> {
  type Branch = { readonly id: number; readonly branch: string };
  const all = await rows<Branch>(client, 'SELECT id, branch FROM queue_branches');
  return all.filter(({ branch }) => leadsTo('postgres', branch)).map(({ id }) => id);
}

async function newestIn(
  client: PostgresClient,
  branch: number,
  projectId: string,
  upTo: string | number | undefined,
): Promise<string | null> {
  type Found = {
    readonly own: string | null;
    readonly last: string | null;
    readonly looked: number;
  };
  const found = await row<Found>(
    client,
    `SELECT max(batch_id) FILTER (WHERE project = $2) AS own, max(batch_id) AS last,
       count(*)::integer AS looked
     FROM (SELECT batch_id, project FROM queue_entries
           WHERE branch = $1 AND batch_id <= coalesce($3::text, '~')
           ORDER BY batch_id LIMIT ${LOOKED_AT + 1}) e`,
    [branch, projectId, upTo === undefined ? null : String(upTo)],
  );
  if (found === undefined) return null;
  return found.looked > LOOKED_AT ? found.last : found.own;
}
