import './view.css';
import type { JSX } from 'preact';
import type { QueryValues } from '../../api/address.ts';
import { daemonNow } from '../../api/clock.ts';
import { readStats } from '../../api/reading.ts';
import type { Stats } from '../../api/types.ts';
import { Chart } from '../../parts/chart.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { cost, count, duration } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RangeMenu } from '../../parts/range-menu.tsx';
import { ReversedRange } from '../../parts/reversed-range.tsx';
import { SearchBar } from '../../parts/search-bar.tsx';
import { periodsBetween } from '../../parts/series.ts';
import { Sums } from '../../parts/sums.tsx';
import { project } from '../../state/projects.ts';
import type { Bars } from '../../state/range.ts';
import { barsOf, countedIn, isReversed, rangeKey, rangeOf, STEP_MS } from '../../state/range.ts';
import { useResource } from '../../state/resource.ts';
import { hrefOf, navigate, query, setQuery } from '../../state/router.ts';
import { mistakeOf } from '../../state/terms.ts';
import { costOf, latencyAt, sumOf, valuesAt } from './figures.ts';
import { FirstToken } from './first-token.tsx';
import { Groups } from './groups.tsx';

/** `/dashboard`: requests, errors, latency, tokens and cost over time, and by the values of a field. */
export function View(): JSX.Element {
  const id = project.value?.id ?? '';
  const text = query.value.get('q') ?? '';
  const range = rangeOf(query.value, daemonNow());
  const hasRange = !isReversed(range, daemonNow());
  const isValid = mistakeOf(text) === undefined && hasRange;
  const key = [id, text, rangeKey(range)].join(' ');
  const { data, failure, again, isLoading, reload } = useResource(
    isValid ? key : undefined,
    async (signal) => {
      const span = barsOf(range, daemonNow());
      const { from, to } = countedIn(range, span);
      const asked = { from, to, step: span.step, q: text };
      return { span, asked, stats: await readStats(id, asked, signal) };
    },
    { every: REFRESH_MS },
  );
  return (
    <>
      <PageHead title="Dashboard">
        <RangeMenu range={range} />
      </PageHead>
      <SearchBar project={id} value={text} onSearch={(q) => setQuery({ q })} />
      {!hasRange && <ReversedRange />}
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {isValid && data === undefined && failure === undefined && <Loading />}
      {isValid && data !== undefined && (
        <div class={isLoading ? 'dashboard is-loading' : 'dashboard'}>
          <Overall
            stats={data.stats}
            times={timesOf(data.span)}
            step={STEP_MS[data.span.step]}
            project={id}
            asked={data.asked}
            days={data.span.days}
          />
          {data.stats.groups.length > 0 && (
            <Groups project={id} asked={data.asked} times={timesOf(data.span)} query={text} />
          )}
        </div>
      )}
    </>
  );
}

const REFRESH_MS = 60_000;

function timesOf({ from, to, step }: Bars): readonly number[] {
  return periodsBetween(from, to, STEP_MS[step]);
}

type OverallProps = {
  readonly project: string;
  /** Range and query of the page. */
  readonly asked: QueryValues;
  readonly stats: Stats;
  readonly times: readonly number[];
  /** Milliseconds. */
  readonly step: number;
  /** The days that the numbers are of if those are only the newest ones of the range. */
  readonly days: number | undefined;
};

function Overall({ stats, times, step, project: id, asked, days }: OverallProps): JSX.Element {
  const points = stats.groups[0]?.points ?? [];
  if (points.length === 0) {
    return (
      <Empty
        title={`Nothing to count in ${days === undefined ? 'this range' : `the last ${days} days`}`}
      >
        <p>
          Choose a longer range, or <Link to="/start">send a first trace</Link>.
        </p>
      </Empty>
    );
  }
  const failedPart = sumOf(points, 'errors') / Math.max(1, sumOf(points, 'observations'));
  // Dragging over a chart opens the list of that time.
  const open = (from: number, to: number): void => {
    const [start, end] = [from, Math.max(to, from + step)].map((at) => new Date(at).toISOString());
    navigate(hrefOf('/traces', { from: start, to: end, q: query.value.get('q') ?? '' }));
  };
  const common = { times, onSelect: open };
  return (
    <>
      <Sums
        sums={[
          { name: 'Traces', value: count(sumOf(points, 'traces')) },
          { name: 'Failed observations', value: `${(failedPart * 100).toFixed(1)} %` },
          { name: 'Cost', value: cost(costOf(points)) },
          { name: 'Input tokens', value: count(sumOf(points, 'input_tokens')) },
          { name: 'Output tokens', value: count(sumOf(points, 'output_tokens')) },
        ]}
      />
      {days !== undefined && (
        <p class="muted">The numbers are of the last {days} days of the range.</p>
      )}
      {stats.partial && <p class="muted">The numbers are of the newest part of the range.</p>}
      <div class="charts">
        <section class="card">
          <h2>Traces</h2>
          <Chart
            {...common}
            label="Traces by time"
            format={count}
            hasLegend={false}
            series={[{ id: 'traces', label: 'Traces', values: valuesAt(times, points, 'traces') }]}
          />
        </section>
        <section class="card">
          <h2>Failed observations</h2>
          <Chart
            {...common}
            label="Failed observations by time"
            format={count}
            hasLegend={false}
            series={[{ id: 'errors', label: 'Failed', values: valuesAt(times, points, 'errors') }]}
          />
        </section>
        <section class="card">
          <h2>Latency of traces</h2>
          <Chart
            {...common}
            kind="lines"
            label="Latency by time"
            format={duration}
            series={LATENCIES.map(({ id, label }) => ({
              ...{ id, label, values: latencyAt(times, points, id) },
            }))}
          />
        </section>
        <section class="card">
          <h2>Tokens</h2>
          <Chart
            {...common}
            label="Tokens by time"
            format={count}
            series={[
              { id: 'input', label: 'Input', values: valuesAt(times, points, 'input_tokens') },
              { id: 'output', label: 'Output', values: valuesAt(times, points, 'output_tokens') },
            ]}
          />
        </section>
        <section class="card">
          <h2>Cost</h2>
          <Chart
            {...common}
            label="Cost by time"
            format={cost}
            hasLegend={false}
            series={[{ id: 'cost', label: 'Cost', values: valuesAt(times, points, 'cost') }]}
          />
        </section>
        <FirstToken project={id} asked={asked} times={times} step={step} />
      </div>
    </>
  );
}

const LATENCIES = [
  { id: 'latency_p50_ms', label: 'p50' },
  { id: 'latency_p95_ms', label: 'p95' },
] as const;
