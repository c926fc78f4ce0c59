import type {
  Clock,
  Counter,
  GaugePoint,
  GaugeReader,
  Histogram,
  Labels,
  Metrics,
} from '../component/component.ts';

/** The metrics of one service, and their rendering for Prometheus. */
export type ServiceMetrics = Metrics & {
  /** A counter kept elsewhere: `read` returns its total at every scrape. */
  observedCounter(name: string, description: string, read: () => number): void;
  /** The values of a counter now, without a scrape: a gauge may ask another machine. Empty if there is none. */
  counts(name: string): readonly Count[];
  /** The recorded values of a histogram now. Empty if there is none. */
  records(name: string): readonly RecordedValues[];
  /** All metrics in the Prometheus text format. */
  text(): Promise<string>;
};

type Count = { readonly labels: Labels; readonly value: number };

type RecordedValues = {
  readonly labels: Labels;
  readonly count: number;
  readonly sum: number;
  /** For each bound of the histogram, how many values were at most that large and above the bound before; last those above all. */
  readonly buckets: readonly number[];
  readonly bounds: readonly number[];
};

/** A metric with its points at one scrape. */
export type MetricPoints = { readonly name: string; readonly description: string } & (
  | { readonly type: 'counter' | 'gauge'; readonly points: readonly GaugePoint[] }
  | { readonly type: 'histogram'; readonly points: readonly RecordedValues[] }
);

/** A metric as a scrape reads it. */
type Scraped = () => MetricPoints | Promise<MetricPoints>;

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const BYTES = Array.from({ length: 18 }, (_, i) => 2 ** (i + 7));
/** Well below the 10 s that Prometheus gives a scrape by default. */
const READ_MS = 2_000;
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/**
 * Counting costs a lookup and an addition: a counter is one number in memory for each set of labels. The library
 * that renders them is loaded by the first scrape, because it is larger than all that a small daemon runs.
 *
 *   add(1, labels) ──▶ cell.value += 1          text ──▶ points of each metric ──▶ prometheus-text.ts
 */
export function createMetrics(clock: Clock): ServiceMetrics {
  const counters = new Map<string, Counter & { counts(): Count[] }>();
  const histograms = new Map<string, Histogram & { records(): RecordedValues[] }>();
  const gauges = new Map<string, Set<GaugeReader>>();
  /** In the order in which they were created, which is that of the page. */
  const scraped = new Map<string, Scraped>();

  return {
    counter: (name, description) =>
      remember(counters, name, () => {
        const made = counter();
        scraped.set(name, () => ({ name, description, type: 'counter', points: made.counts() }));
        return made;
      }),
    histogram: (name, description, unit) =>
      remember(histograms, name, () => {
        const made = histogram(boundaries(name, unit));
        scraped.set(name, () => ({ name, description, type: 'histogram', points: made.records() }));
        return made;
      }),
    gauge(name, description, read) {
      const readers = remember(gauges, name, () => {
        const made = new Set<GaugeReader>();
        scraped.set(name, async () => {
          return { name, description, type: 'gauge', points: await pointsOf(made, clock) };
        });
        return made;
      });
      readers.add(read);
      return () => void readers.delete(read);
    },
    observedCounter(name, description, read) {
      scraped.set(name, () => {
        return { name, description, type: 'counter', points: [{ value: read() }] };
      });
    },
    counts: (name) => counters.get(name)?.counts() ?? [],
    records: (name) => histograms.get(name)?.records() ?? [],
    async text() {
      const metrics = await Promise.all([...scraped.values()].map((read) => read()));
      const { prometheusText } = await import('./prometheus-text.ts');
      return prometheusText(metrics);
    },
  };
}

/** Metrics with labels on every point, e.g. the component's id. */
export function labelled(metrics: Metrics, own: Labels): Metrics {
  return {
    counter(name, description) {
      const counter = metrics.counter(name, description);
      const join = joiner(own);
      return { add: (amount, labels) => counter.add(amount, join(labels)) };
    },
    histogram(name, description, unit) {
      const histogram = metrics.histogram(name, description, unit);
      const join = joiner(own);
      return { record: (value, labels) => histogram.record(value, join(labels)) };
    },
    gauge: (name, description, read) =>
      metrics.gauge(name, description, () => {
        const points = read();
        const join = (all: readonly GaugePoint[]) =>
          all.map(({ value, labels }) => ({ value, labels: { ...own, ...labels } }));
        return points instanceof Promise ? points.then(join) : join(points);
      }),
  };
}

function remember<T>(known: Map<string, T>, name: string, make: () => T): T {
  const found = known.get(name);
  if (found !== undefined) return found;
  const made = make();
  known.set(name, made);
  return made;
}

function counter(): Counter & { counts(): Count[] } {
  const cells = new Map<string, { labels: Labels; value: number }>();
  // A caller that reuses its labels object skips building the key.
  const known = new WeakMap<Labels, { value: number }>();
  const unlabelled: Labels = {};
  return {
    add(amount, labels = unlabelled) {
      let cell = known.get(labels);
      if (cell === undefined) {
        cell = remember(cells, keyOf(labels), () => ({ labels: { ...labels }, value: 0 }));
        known.set(labels, cell);
      }
      cell.value += amount;
    },
    counts: () => [...cells.values()].map((cell) => ({ ...cell })),
  };
}

function histogram(bounds: readonly number[]): Histogram & { records(): RecordedValues[] } {
  type Cell = { labels: Labels; count: number; sum: number; buckets: number[] };
  const cells = new Map<string, Cell>();
  // As for a counter.
  const known = new WeakMap<Labels, Cell>();
  const unlabelled: Labels = {};
  const empty = () => new Array<number>(bounds.length + 1).fill(0);
  return {
    record(value, labels = unlabelled) {
      let cell = known.get(labels);
      if (cell === undefined) {
        cell = remember(cells, keyOf(labels), () => {
          return { labels: { ...labels }, count: 0, sum: 0, buckets: empty() };
        });
        known.set(labels, cell);
      }
      const at = bounds.findIndex((bound) => value <= bound);
      const bucket = at === -1 ? bounds.length : at;
      cell.buckets[bucket] = (cell.buckets[bucket] ?? 0) + 1;
      cell.count++;
      cell.sum += value;
    },
    records: () =>
      [...cells.values()].map((cell) => ({ ...cell, buckets: [...cell.buckets], bounds })),
  };
}

function boundaries(name: string, unit: string | undefined): number[] {
  if (unit === 's' || unit === 'seconds' || name.endsWith('_seconds')) return SECONDS;
  if (unit === 'By' || unit === 'bytes' || name.endsWith('_bytes')) return BYTES;
  return COUNTS;
}

/** The points of all readers of a gauge; one for each set of labels. */
async function pointsOf(readers: ReadonlySet<GaugeReader>, clock: Clock): Promise<GaugePoint[]> {
  const points = await Promise.all([...readers].map((read) => inTime(read, clock)));
  const byLabels = points.flat().map((point) => [keyOf(point.labels ?? {}), point] as const);
  return [...new Map(byLabels).values()];
}

/** The points of a gauge; none if its source fails or is late, so that the other gauges are served. */
async function inTime(read: GaugeReader, clock: Clock): Promise<readonly GaugePoint[]> {
  const { promise: late, resolve } = Promise.withResolvers<readonly GaugePoint[]>();
  const cancel = clock.after(READ_MS, () => resolve([]));
  try {
    return await Promise.race([read(), late]);
  } catch {
    return [];
  } finally {
    cancel();
  }
}

function joiner(own: Labels): (labels: Labels | undefined) => Labels {
  const known = new WeakMap<Labels, Labels>();
  return (labels) => {
    if (labels === undefined) return own;
    let joined = known.get(labels);
    if (joined === undefined) {
      joined = { ...own, ...labels };
      known.set(labels, joined);
    }
    return joined;
  };
}

function keyOf(labels: Labels): string {
  const entries = Object.entries(labels);
  if (entries.length > 1) entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(entries);
}
