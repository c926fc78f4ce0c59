import type { QueueDatabase } from '../database.ts';
import * as sql from './statements.ts';

/** Reads all that waits in a queue, and sets aside what has no body. Resolves with how many of each. */
export async function verifyQueue(
  database: QueueDatabase,
  queue: string,
  now: number,
): Promise<{ entries: number; quarantined: number }> {
  let entries = 0;
  let quarantined = 0;
  let after = '';
  for (;;) {
    const { rows } = await database.query(sql.PAGE, [queue, after]);
    if (rows.length === 0) return { entries, quarantined };
    const wanted = rows.map((row) => ({
      id: String(row.batch_id),
      projectId: String(row.project),
      receivedAt: Number(row.received_at),
    }));
    const read = await database.read(wanted);
    for (const { id } of wanted) {
      if (read.has(id)) continue;
      quarantined++;
      await database.query(sql.QUARANTINE, [queue, id, 'its body is missing', now]);
    }
    entries += wanted.length;
    after = wanted.at(-1)?.id ?? '';
  }
}
