/** Removes attachments that nothing holds (src/store/attachments.ts). */
import type { AttachmentSweep } from '../../../src/store/attachments.ts';
import type { Postgres } from '../connection/pool.ts';
import { rows } from '../connection/statement.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** Rows that one step walks over. */
const STEP = 1000;
/** Contents that one step removes. */
const STEP_CONTENTS = 20;

type ContentName = { readonly project: string; readonly sha256: Buffer };
type RefName = ContentName & { readonly key: Buffer };

/** Whether an observation, or an update that waits for its run, has the key of a reference `r`. */
const IS_REFERRED = `(
  EXISTS (SELECT 1 FROM observations o JOIN traces t ON t.n = o.trace AND t.project = r.project
    WHERE o.project = r.project AND o.key = r.key AND substr(o.key, 1, 1) <> '\\x3a'::bytea)
  OR EXISTS (SELECT 1 FROM pending_updates u WHERE u.project = r.project AND u.key = r.key))`;
/** Whether a batch or an observation holds a content `a`. */
const IS_HELD = `(
  EXISTS (SELECT 1 FROM attachment_refs r WHERE r.project = a.project AND r.sha256 = a.sha256)
  OR EXISTS (SELECT 1 FROM attachment_holds h WHERE h.project = a.project AND h.sha256 = a.sha256))`;

/** `of`: the only project to sweep. */
export function attachmentSweep(database: Database, of: string | null = null): AttachmentSweep {
  let ref: RefName | undefined;
  let content: ContentName | undefined;
  return {
    async removeHolds(before) {
      const { rows: removed } = await database.query(
        `DELETE FROM attachment_holds WHERE (batch, sha256) IN (
           SELECT batch, sha256 FROM attachment_holds h
           WHERE batch < $1 AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = h.batch)
           LIMIT ${STEP}) RETURNING 1`,
        [before],
      );
      return removed.length === STEP;
    },
    async removeRefs() {
      const page = await rows<RefName & { is_gone: boolean }>(
        database,
        `SELECT project, sha256, key, NOT ${IS_REFERRED} AS is_gone FROM attachment_refs r
         WHERE (project, sha256, key) > ($1, $2, $3) AND ($4::text IS NULL OR project = $4)
         ORDER BY project, sha256, key LIMIT ${STEP}`,
        [ref?.project ?? of ?? '', ref?.sha256 ?? NONE, ref?.key ?? NONE, of],
      );
      const gone = page.filter(({ is_gone: isGone }) => isGone);
      if (gone.length > 0) await removeRefs(database, gone);
      ref = page.at(-1);
      return page.length === STEP;
    },
    async removeContents() {
      const page = await rows<ContentName>(
        database,
        `SELECT project, sha256 FROM attachments a
         WHERE (project, sha256) > ($1, $2) AND ($3::text IS NULL OR project = $3) AND NOT ${IS_HELD}
         ORDER BY project, sha256 LIMIT ${STEP_CONTENTS}`,
        [content?.project ?? of ?? '', content?.sha256 ?? NONE, of],
      );
      if (page.length > 0) await removeContents(database, page);
      content = page.at(-1);
      return page.length === STEP_CONTENTS;
    },
  };
}

const NONE = Buffer.alloc(0);

async function removeRefs(database: Database, refs: readonly RefName[]): Promise<void> {
  await database.query(
    `DELETE FROM attachment_refs r
     USING unnest($1::text[], $2::bytea[], $3::bytea[]) AS g (project, sha256, key)
     WHERE r.project = g.project AND r.sha256 = g.sha256 AND r.key = g.key AND NOT ${IS_REFERRED}`,
    [
      refs.map(({ project }) => project),
      refs.map(({ sha256 }) => sha256),
      refs.map(({ key }) => key),
    ],
  );
}

/** A request that stores one of the contents again holds the lock of its row: it is skipped, or seen by the second statement. */
async function removeContents(database: Database, contents: readonly ContentName[]): Promise<void> {
  await database.transaction(async (client) => {
    const locked = await rows<ContentName>(
      client,
      `SELECT a.project, a.sha256 FROM attachments a
       JOIN unnest($1::text[], $2::bytea[]) AS g (project, sha256)
         ON a.project = g.project AND a.sha256 = g.sha256
       ORDER BY a.project, a.sha256 FOR UPDATE OF a SKIP LOCKED`,
      [contents.map(({ project }) => project), contents.map(({ sha256 }) => sha256)],
    );
    await client.query(
      `WITH gone AS (
         DELETE FROM attachments a USING unnest($1::text[], $2::bytea[]) AS g (project, sha256)
         WHERE a.project = g.project AND a.sha256 = g.sha256 AND NOT ${IS_HELD}
         RETURNING a.project, a.sha256
       )
       DELETE FROM attachment_pieces p USING gone
       WHERE p.project = gone.project AND p.sha256 = gone.sha256`,
      [locked.map(({ project }) => project), locked.map(({ sha256 }) => sha256)],
    );
  });
}

/** Removes a step of what a deleted project has; resolves with whether there may be more. */
export async function removeAttachmentsStep(
  database: Database,
  projectId: string,
): Promise<boolean> {
  for (const [table, columns, limit] of [
    ['attachment_holds', 'batch, sha256', STEP],
    ['attachment_refs', 'project, sha256, key', STEP],
    ['attachment_pieces', 'project, sha256, piece', STEP_CONTENTS],
    ['attachments', 'project, sha256', STEP],
  ] as const) {
    const { rows: removed } = await database.query(
      `DELETE FROM ${table} WHERE (${columns}) IN (
         SELECT ${columns} FROM ${table} WHERE project = $1 LIMIT ${limit}) RETURNING 1`,
      [projectId],
    );
    if (removed.length === limit) return true;
  }
  return false;
}
