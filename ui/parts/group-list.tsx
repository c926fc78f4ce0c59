import type { ComponentChildren, JSX } from 'preact';
import type { QueryValues } from '../api/address.ts';
import { daemonNow } from '../api/clock.ts';
import { usePages } from '../state/pages.ts';
import { project } from '../state/projects.ts';
import { isReversed, rangeKey, rangeOf } from '../state/range.ts';
import { query, setQuery } from '../state/router.ts';
import { mistakeOf } from '../state/terms.ts';
import { Failure } from './failure.tsx';
import { grouped } from './format.ts';
import './group-list.css';
import { ListEnd } from './list-end.tsx';
import { Loading } from './loading.tsx';
import { Nothing } from './nothing.tsx';
import { PageHead } from './page-head.tsx';
import { RangeMenu } from './range-menu.tsx';
import type { RecordColumn } from './record-table.tsx';
import { RecordTable } from './record-table.tsx';
import { ReversedRange } from './reversed-range.tsx';
import { SearchBar } from './search-bar.tsx';

type Row = { readonly id: string };
type GroupPage = {
  readonly next_cursor: string | null;
  readonly searched_to: string | null;
  readonly partial: boolean;
};

type Props<P extends GroupPage, R extends Row> = {
  readonly title: string;
  readonly load: (project: string, query: QueryValues, signal: AbortSignal) => Promise<P>;
  readonly rowsOf: (page: P) => readonly R[];
  readonly columns: readonly RecordColumn<R>[];
  /** How traces come to have such a group. */
  readonly hint: ComponentChildren;
};

const PAGE = 50;

/** `12 sessions`, or `50 sessions so far` if the list has further ones. */
function counted(length: number, plural: string, hasMore: boolean): string {
  const name = length === 1 && !hasMore ? plural.slice(0, -1) : plural;
  return `${grouped(length)} ${name}${hasMore ? ' so far' : ''}`;
}

/** A page with sums over the traces that match: sessions, users. The address has the query and the range. */
export function GroupList<P extends GroupPage, R extends Row>(props: Props<P, R>): JSX.Element {
  const { title, load, rowsOf, columns, hint } = props;
  const id = project.value?.id ?? '';
  const text = query.value.get('q') ?? '';
  const range = rangeOf(query.value, daemonNow());
  const { from, to } = range;
  const plural = title.toLowerCase();
  const hasRange = !isReversed(range, daemonNow());
  const isValid = mistakeOf(text) === undefined && hasRange;
  const key = JSON.stringify([title, id, text, rangeKey(range)]);
  const list = usePages(
    isValid ? key : undefined,
    (cursor, signal) => load(id, { q: text, from, to, limit: PAGE, cursor }, signal),
    { goesOn: (page) => rowsOf(page).length > 0 },
  );
  const rows = hasRange ? list.pages?.flatMap((page) => rowsOf(page)) : undefined;
  const hasRows = (rows?.length ?? 0) > 0 || (rows !== undefined && list.hasMore);
  return (
    <>
      <PageHead title={title}>
        <RangeMenu range={range} />
      </PageHead>
      <SearchBar project={id} value={text} onSearch={(q) => setQuery({ q })} />
      {!hasRange && <ReversedRange />}
      <p role="status" class="muted group-count">
        {rows && !list.isStale && counted(rows.length, plural, list.hasMore)}
      </p>
      {list.failure !== undefined && <Failure failure={list.failure} retry={list.retry} />}
      {isValid && rows === undefined && list.failure === undefined && <Loading />}
      {rows !== undefined && rows.length > 0 && (
        <div class={list.isStale ? 'is-stale' : ''} aria-busy={list.isStale}>
          <RecordTable label={title} rows={rows} keyOf={(row) => row.id} columns={columns} />
        </div>
      )}
      {hasRows && <ListEnd list={list} end={`No further ${plural}`} />}
      {rows !== undefined && !hasRows && list.failure === undefined && (
        <Nothing of={plural.slice(0, -1)} range={range} isFiltered={text !== ''}>
          {hint}
        </Nothing>
      )}
    </>
  );
}
