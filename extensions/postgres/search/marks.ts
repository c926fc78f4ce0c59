import type { Statement } from '../connection/statement.ts';
import type { Entry } from '../traces/snapshot.ts';
import { bytesOfKey } from '../traces/text.ts';

/**
 * Whether the store searches payloads. A transaction that has read the table holds up the one that turns it on, so that each write
 * either notes its changes or is seen by the walk over what is stored.
 */
export const IS_SEARCHED = 'EXISTS (SELECT 1 FROM text_search WHERE id AND bytes > 0)';

/** Notes the rows of the table expression `inserted` (trace, n, key). */
export const MARK_INSERTED = `INSERT INTO text_changes (trace, observation, key)
  SELECT trace, n, key FROM inserted`;

/** Notes observations that changed or were removed, each in the trace that it had and in the one that it has. */
export function markChanged(entries: readonly Entry[]): Statement[] {
  if (entries.length === 0) return [];
  return [
    [
      `INSERT INTO text_changes (trace, observation, key)
       SELECT g.* FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS g`,
      [
        entries.map(({ trace }) => trace),
        entries.map(({ n }) => n),
        entries.map(({ key }) => bytesOfKey(key)),
      ],
    ],
  ];
}

/** Notes the observations of traces that got the numbers in $1. */
export const MARK_MOVED = `INSERT INTO text_changes (trace, observation, key)
  SELECT trace, n, key FROM observations WHERE trace = ANY ($1::bigint[]) AND ${IS_SEARCHED}`;
