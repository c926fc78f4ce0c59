import type { Meter } from '@opentelemetry/api';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import {
  AggregationTemporality,
  InstrumentType,
  MeterProvider,
  MetricReader,
} from '@opentelemetry/sdk-metrics';
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
  shutdown(): Promise<void>;
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

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const BYTES = Array.from({ length: 18 }, (_, i) => 2 ** (i + 7));
/** Well below the 10 s that Prometheus gives a scrape by default. */
const READ_MS = 2_000;
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/**
 * Counting costs a lookup and an addition: a counter is one number in memory for each set of labels. The
 * library reads the numbers at a scrape.
 *
 *   add(1, labels) ──▶ cell.value += 1          collect ──▶ observe(cell.value, labels) ──▶ text
 */
export function createMetrics(clock: Clock): ServiceMetrics {
  const reader = new PullReader();
  const provider = new MeterProvider({ readers: [reader] });
  const meter = provider.getMeter('tracectl');
  const serializer = new PrometheusSerializer('', false, undefined, true, true);
  const counters = new Map<string, Counter & { counts(): Count[] }>();
  const histograms = new Map<string, Histogram & { records(): RecordedValues[] }>();
  const gauges = new Map<string, Set<GaugeReader>>();

  return {
    counter: (name, description) =>
      remember(counters, name, () => counter(meter, name, description)),
    histogram: (name, description, unit) =>
      remember(histograms, name, () => histogram(meter, name, description, unit)),
    gauge(name, description, read) {
      const readers = remember(gauges, name, () => gauge(meter, name, description, clock));
      readers.add(read);
      return () => void readers.delete(read);
    },
    observedCounter(name, description, read) {
      meter
        .createObservableCounter(name, { description })
        .addCallback((result) => result.observe(read()));
    },
    counts: (name) => counters.get(name)?.counts() ?? [],
    records: (name) => histograms.get(name)?.records() ?? [],
    async text() {
      const { resourceMetrics } = await reader.collect();
      return serializer.serialize(resourceMetrics);
    },
    shutdown: () => provider.shutdown(),
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

class PullReader extends MetricReader {
  constructor() {
    super({
      // Cumulative gauges would show the last value of a removed component indefinitely.
      aggregationTemporalitySelector: (instrument) =>
        instrument === InstrumentType.OBSERVABLE_GAUGE
          ? AggregationTemporality.DELTA
          : AggregationTemporality.CUMULATIVE,
    });
  }
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

function remember<T>(known: Map<string, T>, name: string, make: () => T): T {
  const found = known.get(name);
  if (found !== undefined) return found;
  const made = make();
  known.set(name, made);
  return made;
}

function counter(meter: Meter, name: string, description: string): Counter & { counts(): Count[] } {
  const cells = new Map<string, { labels: Labels; value: number }>();
  // A caller that reuses its labels object skips building the key.
  const known = new WeakMap<Labels, { value: number }>();
  meter.createObservableCounter(name, { description }).addCallback((result) => {
    for (const { labels, value } of cells.values()) result.observe(value, labels);
  });
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

function histogram(
  meter: Meter,
  name: string,
  description: string,
  unit?: string,
): Histogram & { records(): RecordedValues[] } {
  const bounds = boundaries(name, unit);
  const made = meter.createHistogram(name, {
    description,
    advice: { explicitBucketBoundaries: bounds },
  });
  type Cell = { labels: Labels; count: number; sum: number; buckets: number[] };
  const cells = new Map<string, Cell>();
  // As for a counter.
  const known = new WeakMap<Labels, Cell>();
  const unlabelled: Labels = {};
  const empty = () => new Array<number>(bounds.length + 1).fill(0);
  return {
    record(value, labels = unlabelled) {
      made.record(value, labels);
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

function gauge(meter: Meter, name: string, description: string, clock: Clock): Set<GaugeReader> {
  const readers = new Set<GaugeReader>();
  meter.createObservableGauge(name, { description }).addCallback(async (result) => {
    await Promise.all(
      [...readers].map(async (read) => {
        for (const { value, labels } of await inTime(read, clock)) result.observe(value, labels);
      }),
    );
  });
  return readers;
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
