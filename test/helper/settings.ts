import { type Capability, findOffer, type Offer, offer } from '../../src/component/capability.ts';
import type {
  Clock,
  ComponentKind,
  GaugePoint,
  GaugeReader,
  Host,
  Labels,
  Logger,
  Metrics,
  Settings,
  Worker,
} from '../../src/component/component.ts';
import { ONLY_WORKER } from '../../src/component/component.ts';
import { FIRST_TOKENS, NO_TOKENS } from '../../src/component/first-tokens.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import { fakeClock } from './clock.ts';

type LogLine = {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
};

/** A logger that keeps its lines for a test to read. */
export type RecordingLogger = Logger & { readonly lines: LogLine[] };

export function recordingLogger(): RecordingLogger {
  const lines: LogLine[] = [];
  const at = (level: LogLine['level']) => (fields: object, message: string) => {
    lines.push({ level, fields: { ...fields }, message });
  };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Metrics kept in memory; `value` reads a counter or gauge, 0 if nothing was counted. */
export type RecordingMetrics = Metrics & {
  value(name: string, labels?: Labels): number;
  /** Reads a gauge whose source answers later. Undefined if it has no such point. */
  scraped(name: string, labels?: Labels): Promise<number | undefined>;
  /** Everything a histogram was given. */
  records(name: string): readonly number[];
  names(): readonly string[];
};

export function recordingMetrics(): RecordingMetrics {
  const sums = new Map<string, number>();
  const histograms = new Map<string, number[]>();
  const gauges = new Map<string, GaugeReader>();
  const names = new Set<string>();
  return {
    counter(name) {
      names.add(name);
      return {
        add(amount, labels) {
          const key = keyOf(name, labels);
          sums.set(key, (sums.get(key) ?? 0) + amount);
        },
      };
    },
    histogram(name) {
      names.add(name);
      const values = histograms.get(name) ?? [];
      histograms.set(name, values);
      return { record: (value) => void values.push(value) };
    },
    gauge(name, _description, read) {
      names.add(name);
      gauges.set(name, read);
      return () => gauges.delete(name);
    },
    value(name, labels) {
      const read = gauges.get(name);
      if (read === undefined) return sums.get(keyOf(name, labels)) ?? 0;
      const points = read();
      if (points instanceof Promise) throw new Error(`${name} is read with \`scraped\``);
      return pointOf(name, labels, points) ?? 0;
    },
    async scraped(name, labels) {
      return pointOf(name, labels, (await gauges.get(name)?.()) ?? []);
    },
    records: (name) => histograms.get(name) ?? [],
    names: () => [...names],
  };
}

function pointOf(name: string, labels: Labels | undefined, points: readonly GaugePoint[]) {
  return points.find((point) => keyOf(name, point.labels) === keyOf(name, labels))?.value;
}

function keyOf(name: string, labels: Labels = {}): string {
  return `${name}${JSON.stringify(Object.entries(labels).sort())}`;
}

/** No component of a test ends the process, unless the test expects it. */
const UNEXPECTED_END = offer(PROCESS_END, {
  end(reason) {
    throw new Error(`a component ends the process: ${reason}`);
  },
});

const NOTHING_KEPT = offer(FIRST_TOKENS, NO_TOKENS);

/** A host with the given offers of the service, and of extensions by id. */
export function fakeHost(
  offers: {
    services?: readonly Offer[];
    extensions?: Readonly<Record<string, readonly Offer[]>>;
  } = {},
): Host {
  return {
    extension<T>(id: string, wanted: Capability<T>): T {
      const found = findOffer(offers.extensions?.[id] ?? [], wanted);
      if (found === undefined) throw new Error(`no extension "${id}" offers ${wanted.name}`);
      return found;
    },
    service<T>(wanted: Capability<T>): T {
      const found = findOffer([...(offers.services ?? []), UNEXPECTED_END, NOTHING_KEPT], wanted);
      if (found === undefined) throw new Error(`the service does not offer ${wanted.name}`);
      return found;
    },
  };
}

export type TestSettings = Settings & {
  readonly logger: RecordingLogger;
  readonly metrics: RecordingMetrics;
};

/** Settings for one component; the clock is a `fakeClock` unless another is given. */
export function testSettings(
  kind: ComponentKind,
  id: string,
  more: {
    clock?: Clock;
    host?: Host;
    logger?: RecordingLogger;
    metrics?: RecordingMetrics;
    worker?: Worker;
  } = {},
): TestSettings {
  return {
    kind,
    id,
    clock: more.clock ?? fakeClock(),
    host: more.host ?? fakeHost(),
    logger: more.logger ?? recordingLogger(),
    metrics: more.metrics ?? recordingMetrics(),
    worker: more.worker ?? ONLY_WORKER,
  };
}
