import './view.css';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { apiPath, at } from '../../api/client.ts';
import { daemonNow } from '../../api/clock.ts';
import type { Trace } from '../../api/types.ts';
import { Failure } from '../../parts/failure.tsx';
import { Link } from '../../parts/link.tsx';
import { ListEnd } from '../../parts/list-end.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Nothing } from '../../parts/nothing.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RangeMenu } from '../../parts/range-menu.tsx';
import { ReversedRange } from '../../parts/reversed-range.tsx';
import { SearchBar } from '../../parts/search-bar.tsx';
import { Switch } from '../../parts/switch.tsx';
import { download } from '../../state/download.ts';
import { useMatches } from '../../state/media.ts';
import { project } from '../../state/projects.ts';
import { isReversed, rangeOf } from '../../state/range.ts';
import { query, setQuery } from '../../state/router.ts';
import { recall, remember } from '../../state/storage.ts';
import { mistakeOf } from '../../state/terms.ts';
import { COLUMNS, columnsOf, orderOf, toggleColumn } from './columns.ts';
import { Facets } from './facets.tsx';
import { Histogram } from './histogram.tsx';
import { TraceTable } from './table.tsx';
import { useTraces } from './use-traces.ts';

/** Beside the filters the usual columns have no room in such a window. */
const NARROW = matchMedia('(max-width: 1424px)');
/** Milliseconds between two readings of the histogram and of the filters' counts beside a live list. */
const COUNTS_MS = 30_000;

/** `/traces`: the list. The address has its whole state: query, range, order, columns and the live switch. */
export function View(): JSX.Element {
  const id = project.value?.id ?? '';
  const parameters = query.value;
  const text = parameters.get('q') ?? '';
  const range = rangeOf(parameters, daemonNow());
  const { sort, order } = orderOf(parameters);
  const isNewestFirst = sort === 'start' && order === 'desc';
  const isLive = parameters.get('live') === '1' && isNewestFirst && range.to === undefined;
  const columnIds = parameters.get('columns') ?? recall('columns');
  const isNarrow = useMatches(NARROW);
  const columns = useMemo(() => columnsOf(columnIds, isNarrow), [columnIds, isNarrow]);
  const list = useTraces({ project: id, query: text, range, sort, order }, isLive);
  const every = isLive ? COUNTS_MS : undefined;
  const hasRange = !isReversed(range, daemonNow());
  const isValid = mistakeOf(text) === undefined && hasRange;
  const hasRows = (list.traces?.length ?? 0) > 0 || list.hasMore;
  const search = (q: string): void => setQuery({ q });

  const showColumn = (column: (typeof COLUMNS)[number]['id']): void => {
    const chosen = toggleColumn(columns, column);
    remember('columns', chosen);
    setQuery({ columns: chosen }, { replace: true });
  };
  const exported = (format: string): string =>
    apiPath(at`/projects/${id}/export`, { q: text, from: range.from, to: range.to, format });

  return (
    <>
      <PageHead title="Traces">
        {list.isBroken && (
          <span class="warn" role="status">
            The stream is interrupted. Connecting …
          </span>
        )}
        <Switch
          label="Live"
          isOn={isLive}
          onChange={(isOn) =>
            setQuery(isOn ? { live: '1', sort: '', order: '', to: '' } : { live: '' })
          }
        />
        <RangeMenu range={range} />
        <Menu
          label="Columns"
          button="Columns"
          isMultiple
          items={COLUMNS.map(({ id: column, label }) => ({
            ...{ id: column, label, isChosen: columns.some((each) => each.id === column) },
            disabledBy: columns.every((each) => each.id === column) ? LAST_COLUMN : undefined,
            run: () => showColumn(column),
          }))}
        />
        <Menu
          label="Export"
          button="Export"
          items={['jsonl', 'csv', 'parquet'].map((format) => ({
            ...{ id: format, label: FORMATS[format] ?? format },
            run: () => void download(exported(format)),
          }))}
        />
      </PageHead>
      <SearchBar project={id} value={text} onSearch={search} />
      {isValid && (
        <Histogram
          {...{ project: id, query: text, range, every }}
          onSelect={(from, to) => setQuery({ from, to, range: undefined })}
        />
      )}
      {!hasRange && <ReversedRange />}
      <div class="list-body" hidden={!isValid}>
        {isValid && (
          <Facets
            {...{ project: id, query: text, range, every }}
            scoreNames={scoreNamesOf(list.traces ?? [])}
            onSearch={search}
          />
        )}
        <div class={list.isStale ? 'list-main is-stale' : 'list-main'} aria-busy={list.isStale}>
          {list.failure !== undefined && (
            <Failure failure={list.failure} retry={list.retry} again={list.again} />
          )}
          {list.traces === undefined && list.failure === undefined && <Loading />}
          {list.traces !== undefined && list.traces.length > 0 && (
            <TraceTable
              {...{ traces: list.traces, columns, sort, order }}
              onSort={(by, direction) => setQuery({ sort: by, order: direction })}
            />
          )}
          {hasRows && <ListEnd list={list} end="No further traces" />}
          {list.traces !== undefined && !hasRows && list.failure === undefined && (
            <Nothing of="trace" range={range} isFiltered={text !== ''}>
              <p>
                <Link to="/start">Send a first trace</Link>, or see under{' '}
                <Link to="/rejected">Rejected</Link> whether something was refused.
              </p>
            </Nothing>
          )}
        </div>
      </div>
    </>
  );
}

const LAST_COLUMN = 'A list has at least one column';

function scoreNamesOf(traces: readonly Trace[]): readonly string[] {
  return [...new Set(traces.flatMap(({ scores }) => Object.keys(scores)))].sort();
}

const FORMATS: Readonly<Record<string, string>> = {
  jsonl: 'JSON lines',
  csv: 'CSV',
  parquet: 'Parquet',
};
