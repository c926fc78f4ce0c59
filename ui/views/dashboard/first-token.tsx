import type { JSX } from 'preact';
import type { QueryValues } from '../../api/address.ts';
import { readTraces } from '../../api/reading.ts';
import { Chart } from '../../parts/chart.tsx';
import { Failure } from '../../parts/failure.tsx';
import { duration, grouped } from '../../parts/format.ts';
import { useResource } from '../../state/resource.ts';
import { percentileAt } from './figures.ts';

type Props = {
  readonly project: string;
  /** Range and query of the page. */
  readonly asked: QueryValues;
  readonly times: readonly number[];
  /** Milliseconds. */
  readonly step: number;
};

/** Rollups keep no time to the first token, so the chart has the newest traces of the range. */
const MOST = 1_000;

/** The time to the first token over time; nothing if no trace of the range has one. */
export function FirstToken({ project, asked, times, step }: Props): JSX.Element | null {
  const { from, to, q } = asked;
  const key = JSON.stringify([project, from, to, q]);
  const { data, failure, reload } = useResource(key, (signal) => {
    const query = { from, to, q: `${q ?? ''} has:ttft`.trim(), limit: MOST };
    return readTraces(project, query, signal);
  });
  const values = (data?.traces ?? []).flatMap(({ start_time, ttft_ms }) =>
    ttft_ms === null ? [] : [{ at: Date.parse(start_time ?? ''), value: ttft_ms }],
  );
  if (values.length === 0 && failure === undefined) return null;
  const isCut = typeof data?.next_cursor === 'string';
  return (
    <section class="card">
      <h2>Time to first token</h2>
      {failure !== undefined && <Failure failure={failure} retry={reload} />}
      {isCut && <p class="muted">Of the newest {grouped(values.length)} traces</p>}
      {values.length > 0 && (
        <Chart
          kind="lines"
          label="Time to first token by time"
          times={times}
          format={duration}
          series={[
            { id: 'p50', label: 'p50', values: percentileAt(times, step, values, 0.5) },
            { id: 'p95', label: 'p95', values: percentileAt(times, step, values, 0.95) },
          ]}
        />
      )}
    </section>
  );
}
