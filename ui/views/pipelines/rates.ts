import type { Pipelines } from '../../api/types.ts';
import { NOTHING } from '../../parts/format.ts';

export type PipelineNode = Pipelines['nodes'][number];
type Counters = PipelineNode['counters'];

/** Each counter a second; undefined while there is nothing to compare with. */
export type Rates = Readonly<Partial<Record<keyof Counters, number>>>;

/** Milliseconds that a rate looks back, so that it is calm and still live. */
const SPAN_MS = 10_000;

/** Adds an answer to those of the last seconds. A restart, which sets the counters to zero, begins again. */
export function remembered(answers: readonly Pipelines[], newest: Pipelines): readonly Pipelines[] {
  const since = Date.parse(newest.at) - SPAN_MS;
  const same = answers.filter((each) => each.since === newest.since && each.at < newest.at);
  const late = same.filter((each) => Date.parse(each.at) >= since);
  return [...(late.length === 0 ? same.slice(-1) : late), newest];
}

/** The rates of every component by its id, from the oldest to the newest answer. */
export function ratesOf(answers: readonly Pipelines[]): ReadonlyMap<string, Rates> {
  const [oldest, newest] = [answers[0], answers.at(-1)];
  if (oldest === undefined || newest === undefined) return new Map();
  const seconds = (Date.parse(newest.at) - Date.parse(oldest.at)) / 1000;
  if (!(seconds > 0)) return new Map();
  const before = new Map(oldest.nodes.map(({ id, counters }) => [id, counters]));
  return new Map(
    newest.nodes.map(({ id, counters }) => [id, difference(before.get(id), counters, seconds)]),
  );
}

function difference(before: Counters | undefined, after: Counters, seconds: number): Rates {
  const rates: Partial<Record<keyof Counters, number>> = {};
  for (const name of Object.keys(after) as (keyof Counters)[]) {
    const [from, to] = [before?.[name], after[name]];
    if (from !== undefined && to !== undefined) rates[name] = Math.max(0, to - from) / seconds;
  }
  return rates;
}

/** The items that reach or leave a component a second; undefined if it never counted one, as one that reads heads only. */
export function throughput(
  { counters }: PipelineNode,
  rates: Rates | undefined,
): number | undefined {
  const { items_in: taken = 0, items_out: given = 0 } = counters;
  if (rates === undefined || taken + given === 0) return undefined;
  return Math.max(rates.items_in ?? 0, rates.items_out ?? 0);
}

/** `0/s`, `0.3/s`, `12/s`, `1,234/s`; `–` if it is unknown. */
export function rateText(rate: number | undefined): string {
  if (rate === undefined) return NOTHING;
  const rounded = rate === 0 || rate >= 9.95 ? Math.round(rate) : Number(rate.toPrecision(1));
  return `${rounded.toLocaleString('en-US', { maximumFractionDigits: 3 })}/s`;
}

export type Condition = 'good' | 'warn' | 'bad';

/** `bad`: not ready or unhealthy. `warn`: dead letters, or failures at this moment. */
export function conditionOf({ health, queue }: PipelineNode, rates: Rates | undefined): Condition {
  if (health !== null && !(health.ready && health.healthy)) return 'bad';
  const letters = queue?.dead_letters ?? 0;
  const isFailing = (rates?.items_failed ?? 0) > 0 || (rates?.retries ?? 0) > 0;
  return letters > 0 || (queue?.quarantined ?? 0) > 0 || isFailing ? 'warn' : 'good';
}
