import type { StoreDatabase } from '../database.ts';
import * as sql from './statements.ts';

/** Reads all that waits in a queue, and sets aside what has no body. Resolves with how many of each. */
export async function verifyQueue(
  database: StoreDatabase,
  queue: string,
  now: number,
): Promise<{ entries: number; quarantined: number }> {
  let entries = 0;
  let quarantined = 0;
  let after = '';
  for (;;) {
    const { rows } = await database.query(sql.PAGE, [queue, after]);
    if (rows.length === 0) return { entries, quarantined };
    const ids = rows.map((row) => String(row.batch_id));
    const read = await database.readBatches(ids);
    for (const id of ids) {
      if (read.has(id)) continue;
      quarantined++;
      await database.query(sql.QUARANTINE, [queue, id, 'its body is missing', now]);
    }
    entries += ids.length;
    after = ids.at(-1) ?? '';
  }
}
