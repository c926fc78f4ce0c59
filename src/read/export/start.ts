import { Refusal } from '../../model/errors.ts';
import { foreignCursor, listCursors } from '../list-cursor.ts';
import type { StoreReading } from '../stored-request.ts';
import type { ExportPosition } from './position.ts';
import { positionOfText, positionText } from './position.ts';
import type { ExportRequest } from './request.ts';
import { exportTexts } from './request.ts';

/** Where an export begins. */
export type ExportStart = {
  /** The time that `now` in the query means: that of the first request of an export that goes on. */
  readonly now: number;
  readonly position: ExportPosition;
  /** The value of `after` for a position. */
  tokenOf(position: ExportPosition): string;
};

/**
 * `after` is the token of an answer that ended, or the last complete row of one that was cut: a JSON object with the members
 * that name the row. Rejects with a `Refusal` (400).
 */
export async function exportStart(
  { exchange, query, tenant, store }: StoreReading,
  { after, of }: ExportRequest,
): Promise<ExportStart> {
  const cursors = listCursors('export', tenant.projectId, of, ...exportTexts(query));
  const startAt = (now: number, position: ExportPosition): ExportStart => ({
    ...{ now, position },
    tokenOf: (at) => cursors.write(`${now}.${positionText(at)}`) ?? '',
  });
  const now = exchange.clock.now();
  if (after === undefined) return startAt(now, { behind: undefined });
  if (!after.startsWith('{')) {
    const match = /^(\d{1,16})\.(.+)$/.exec(cursors.read(after) ?? '');
    if (match === null) throw foreignCursor();
    return startAt(Number(match[1]), positionOfText(match[2] ?? ''));
  }
  const row = rowNamed(after, of);
  const cursor = await store.traces.rowCursors(tenant.projectId, row.traceId, row.id);
  if (cursor === undefined) {
    const message =
      'The row to go on from is not stored. Go on from a token, or export a range of time.';
    throw new Refusal('invalid_cursor', message);
  }
  const within =
    cursor.observation === null ? undefined : { traceId: row.traceId, cursor: cursor.observation };
  return startAt(now, { behind: cursor.trace, within });
}

type RowName = { readonly traceId: string; readonly id: string | undefined };

function rowNamed(text: string, of: ExportRequest['of']): RowName {
  const { id, trace_id: traceId } = membersOf(text);
  if (of === 'traces' && typeof id === 'string') return { traceId: id, id: undefined };
  if (of === 'observations' && typeof id === 'string' && typeof traceId === 'string') {
    return { traceId, id };
  }
  const names = of === 'traces' ? 'id' : 'trace_id and id';
  throw new Refusal('invalid_cursor', `The row in after must have ${names}.`);
}

function membersOf(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new Refusal('invalid_cursor', 'The row in after must be a JSON object.', { cause });
  }
}
