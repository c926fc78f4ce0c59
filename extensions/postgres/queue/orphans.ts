import type { StoreDatabase } from '../database.ts';

/**
 * Finds leases that this process holds without knowing: the answer to its asking was lost on the way. What
 * is found twice in a row is given back; what was leased meanwhile is known by the second time.
 */
export function orphanSearch(
  database: StoreDatabase,
  holderId: string,
  isKnown: (branchId: number, seq: number) => boolean,
): () => Promise<number> {
  let suspects = new Set<string>();

  return async () => {
    const { rows } = await database.query(
      'SELECT branch, batch_id, seq FROM queue_entries WHERE holder = $1',
      [holderId],
    );
    const unknown = rows.filter(({ branch, seq }) => !isKnown(Number(branch), Number(seq)));
    const nameOf = ({ branch, batch_id }: (typeof rows)[number]): string => `${branch} ${batch_id}`;
    const orphans = unknown.filter((row) => suspects.has(nameOf(row)));
    suspects = new Set(unknown.map(nameOf));
    if (orphans.length === 0) return 0;
    await database.query(
      `UPDATE queue_entries e SET holder = NULL
       FROM unnest($2::integer[], $3::text[]) AS o (branch, batch_id)
       WHERE e.branch = o.branch AND e.batch_id = o.batch_id AND e.holder = $1`,
      [holderId, orphans.map(({ branch }) => branch), orphans.map(({ batch_id }) => batch_id)],
    );
    return orphans.length;
  };
}
