import { fit, oneLine, widthOf } from '../width.ts';
import type { Figured } from './figures.ts';
import { costText, latencyText, timeText, tokensText } from './figures.ts';

/** A trace of a list, as far as the table shows it. */
export type ListedTrace = Figured & {
  readonly id: string;
  readonly name: string | null;
  readonly state: string;
  readonly start_time: string | null;
  readonly latency_ms: number | null;
  readonly user_id: string | null;
  readonly session_id: string | null;
};

type Column = {
  readonly head: string;
  readonly align?: 'right';
  readonly most: number;
  /** Absent from narrow terminals. */
  readonly isOptional?: boolean;
  cell(trace: ListedTrace): string;
};

/** From this width on, times have a year and ids are longer. */
const WIDE_COLUMNS = 110;
/** The name is readable in this width. */
const LEAST_NAME = 16;
const GAP = '  ';

/** A table in the given width. A name, a user or a session that does not fit is cut. */
export function renderTraces(traces: readonly ListedTrace[], columns: number): string {
  const sized = columnsFor(columns).map((column) => ({ ...column, width: widest(column, traces) }));
  shrinkName(sized, columns);
  const lines = [
    sized.map(({ head, width, align }) => fit(head, width, align)),
    ...traces.map((trace) => sized.map(({ cell, width, align }) => fit(cell(trace), width, align))),
  ];
  return lines.map((cells) => cells.join(GAP).trimEnd()).join('\n');
}

type Sized = Column & { width: number };

function columnsFor(columns: number): Column[] {
  const isNarrow = columns < WIDE_COLUMNS;
  // `tracectl trace` takes the first characters of an id.
  const idLength = isNarrow ? 8 : 12;
  return [
    { head: 'TIME', most: 19, cell: ({ start_time }) => timeText(start_time, isNarrow) },
    { head: 'ID', most: idLength, cell: ({ id }) => oneLine(id).slice(0, idLength) },
    { head: 'NAME', most: 60, cell: ({ name }) => name ?? '-' },
    { head: 'STATE', most: 11, cell: ({ state }) => state },
    {
      head: 'LATENCY',
      most: 8,
      align: 'right',
      cell: ({ latency_ms }) => latencyText(latency_ms),
    },
    { head: 'TOKENS', most: 8, align: 'right', cell: tokensText },
    { head: 'COST', most: 9, align: 'right', cell: costText },
    { head: 'USER', most: 24, isOptional: true, cell: ({ user_id }) => user_id ?? '-' },
    { head: 'SESSION', most: 24, isOptional: true, cell: ({ session_id }) => session_id ?? '-' },
  ];
}

function widest({ head, most, cell }: Column, traces: readonly ListedTrace[]): number {
  const cells = traces.map((trace) => widthOf(oneLine(cell(trace))));
  return Math.max(head.length, Math.min(most, Math.max(0, ...cells)));
}

/** Leaves out session, then user, until the name has room, and gives the rest to the name. */
function shrinkName(sized: Sized[], columns: number): void {
  const name = sized.find(({ head }) => head === 'NAME');
  if (name === undefined) return;
  const room = (): number =>
    columns - sized.reduce((sum, { width }) => sum + width + GAP.length, -GAP.length) + name.width;
  while (room() < Math.min(name.width, LEAST_NAME) && sized.at(-1)?.isOptional === true)
    sized.pop();
  name.width = Math.max(name.head.length, Math.min(name.width, room()));
}
