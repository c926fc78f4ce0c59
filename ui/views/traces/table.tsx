import type { ComponentChildren, JSX } from 'preact';
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { at } from '../../api/client.ts';
import type { Trace } from '../../api/types.ts';
import { cost, count, duration, exactCost, grouped } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { firstWords } from '../../parts/preview.ts';
import { Status } from '../../parts/status.tsx';
import { nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { keep, keptValue } from '../../state/kept.ts';
import { entry, hrefOf, isRevisited, navigate } from '../../state/router.ts';
import type { Column, ColumnId } from './columns.ts';
import { leastWidth } from './columns.ts';

type Props = {
  readonly traces: readonly Trace[];
  readonly columns: readonly Column[];
  readonly sort: string;
  readonly order: string;
  readonly onSort: (sort: string, order: string) => void;
};

/** The name of the chosen row among the kept values. */
const KEPT = 'row';

/** The list. `j` and `k` choose a row, Enter opens it. */
export function TraceTable({ traces, columns, sort, order, onSort }: Props): JSX.Element {
  const here = entry.value;
  /** The id of the row; a live list moves it. */
  const [chosen, setChosen] = useState(() => keptValue<string>(here, KEPT));
  const body = useRef<HTMLTableSectionElement>(null);
  // Keys may come faster than the page renders.
  const now = useRef({ traces, chosen });
  now.current.traces = traces;
  const choose = useCallback(
    (id: string | undefined): void => {
      now.current.chosen = id;
      setChosen(id);
      keep(here, KEPT, id);
    },
    [here],
  );
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (isForOthers(event)) return;
      const step = { j: 1, k: -1 }[event.key];
      if (step === undefined) return;
      const { traces: all, chosen: before } = now.current;
      const index = all.findIndex(({ id }) => id === before) + step;
      const next = Math.max(0, Math.min(index, all.length - 1));
      choose(all[next]?.id);
      // At once: Enter may come before the page renders.
      const row = body.current?.rows[next];
      row?.querySelector('a')?.focus({ preventScroll: true });
      row?.scrollIntoView({ block: 'nearest' });
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [here]);
  useReturn(() => body.current?.rows[traces.findIndex(({ id }) => id === chosen)]);
  return (
    <div class="table-scroll">
      <table class="traces" aria-label="Traces" style={{ minWidth: `${leastWidth(columns)}px` }}>
        <colgroup>
          {columns.map((column) => (
            <col
              key={column.id}
              {...('width' in column ? { style: { width: `${column.width}px` } } : {})}
            />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={sort} order={order} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {traces.map((trace) => (
            <Row
              key={trace.id}
              trace={trace}
              columns={columns}
              isChosen={trace.id === chosen}
              onOpen={choose}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** After Back and Forward, gives the focus to the row that was opened. */
function useReturn(rowOf: () => HTMLTableRowElement | undefined): void {
  useLayoutEffect(() => {
    if (isRevisited.value) rowOf()?.querySelector('a')?.focus({ preventScroll: true });
  }, []);
}

/** A key for a text that is edited or a menu, or with a modifier. */
function isForOthers({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || !(target instanceof Element)) return true;
  return target.closest('input, textarea, select, dialog, [role=menu]') !== null;
}

function pathOf({ id }: Trace): string {
  return at`/traces/${id}`;
}

type HeadProps = Omit<Props, 'traces' | 'columns'> & { readonly column: Column };

function Head({ column, sort, order, onSort }: HeadProps): JSX.Element {
  const { label, isNumber } = column;
  if (!('sort' in column)) return <th class={isNumber ? 'number' : ''}>{label}</th>;
  const isSorted = column.sort === sort;
  const direction = order === 'asc' ? 'ascending' : 'descending';
  const next = isSorted && order === 'desc' ? 'asc' : 'desc';
  return (
    <th class={isNumber ? 'number' : ''} aria-sort={isSorted ? direction : 'none'}>
      <button type="button" class="quiet sort" onClick={() => onSort(column.sort, next)}>
        {label}
        {isSorted && <span aria-hidden="true">{order === 'asc' ? '↑' : '↓'}</span>}
      </button>
    </th>
  );
}

type RowProps = {
  readonly trace: Trace;
  readonly columns: readonly Column[];
  readonly isChosen: boolean;
  readonly onOpen: (id: string) => void;
};

/** A change of a live list renders only the rows that it changes: a list has hundreds. */
function Row({ trace, columns, isChosen, onOpen }: RowProps): JSX.Element {
  return useMemo(
    () => rowOf({ trace, columns, isChosen, onOpen }),
    [trace, columns, isChosen, onOpen],
  );
}

function rowOf({ trace, columns, isChosen, onOpen }: RowProps): JSX.Element {
  const path = pathOf(trace);
  // A click anywhere in the row opens it; the link in it serves the keyboard and other tabs.
  const open = (event: MouseEvent): void => {
    onOpen(trace.id);
    const isOnControl =
      event.target instanceof Element && event.target.closest('a, button') !== null;
    if (isOnControl || (getSelection()?.toString() ?? '') !== '') return;
    navigate(hrefOf(path));
  };
  const linked = columns.some(({ id }) => id === 'name') ? 'name' : columns[0]?.id;
  return (
    <tr class={isChosen ? 'is-chosen' : ''} onClick={open}>
      {columns.map(({ id, isNumber }) => {
        const cell = CELLS[id](trace);
        return (
          <td key={id} class={`cell-${id}${isNumber ? ' number' : ''}`}>
            {id === linked ? <Link to={path}>{cell}</Link> : cell}
          </td>
        );
      })}
    </tr>
  );
}

const CELLS: Readonly<Record<ColumnId, (trace: Trace) => ComponentChildren>> = {
  start: ({ start_time }) => <Time at={start_time} />,
  name: ({ name }) => <Cut text={nameText(name)} />,
  status: ({ status, state }) => <Status status={status} state={state} isIconOnly />,
  latency: ({ latency_ms }) => <Cut text={duration(latency_ms)} />,
  ttft: ({ ttft_ms }) => <Cut text={duration(ttft_ms)} />,
  tokens: ({ usage }) => (
    <Cut text={count(usage?.['total_tokens'] as number)} title={tokensOf(usage)} />
  ),
  cost: ({ cost: amount }) => <Cut text={cost(amount?.total)} title={exactCost(amount?.total)} />,
  input: ({ input_preview }) => <Cut text={firstWords(input_preview)} />,
  output: ({ output_preview }) => <Cut text={firstWords(output_preview)} />,
  model: ({ models }) => <Cut text={models.join(', ')} />,
  user: ({ user_id }) => user_id && <IdLink to={at`/users/${user_id}`} id={user_id} />,
  session: ({ session_id }) =>
    session_id && <IdLink to={at`/sessions/${session_id}`} id={session_id} />,
  observations: ({ observation_count, error_count }) => (
    <span class="cut" title={`${grouped(observation_count)}, ${grouped(error_count)} failed`}>
      {count(observation_count)}
      {error_count > 0 && <span class="bad"> ({count(error_count)} failed)</span>}
    </span>
  ),
  environment: ({ environment }) => <Cut text={environment ?? ''} />,
  tags: ({ tags }) => <Cut text={tags.join(', ')} />,
  scores: ({ scores }) => <Cut text={scoresOf(scores)} />,
  source: ({ source }) => source,
  id: ({ id }) => <Cut text={id} isCode />,
};

type CutProps = {
  readonly text: string;
  /** The text on hover, if it is another one. */
  readonly title?: string;
  readonly isCode?: boolean;
};

/** A text of which the column may show only the beginning: a number without its end would be another number. */
function Cut({ text, title, isCode = false }: CutProps): JSX.Element {
  // A longer text would make the document large; the page of the trace has all of it.
  const short = text.slice(0, 300);
  return (
    <span class={isCode ? 'cut mono' : 'cut'} title={title ?? short}>
      {short}
    </span>
  );
}

function IdLink({ to, id }: { readonly to: string; readonly id: string }): JSX.Element {
  return (
    <Link to={to}>
      <Cut text={nameText(id)} />
    </Link>
  );
}

function tokensOf(usage: Trace['usage']): string {
  if (usage === null) return '';
  const { input_tokens = 0, output_tokens = 0 } = usage;
  return `${count(input_tokens)} in, ${count(output_tokens)} out`;
}

function scoresOf(scores: Trace['scores']): string {
  return Object.entries(scores)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ');
}
