import { RetryableError } from '../model/errors.ts';
import { formatInstant, formatMs } from '../model/instant.ts';
import { HOUR_MS } from '../model/usage-window.ts';
import { FIELDS } from '../query/fields.ts';
import type { Query } from '../query/query.ts';
import { changesOfField } from '../store/rollups/contribution.ts';
import type { ContributedTrace } from '../store/rollups/contribution-page.ts';
import type { RollupField } from '../store/rollups/fields.ts';
import { isRollupField, ROLLUP_FIELDS } from '../store/rollups/fields.ts';
import type { FacetCount } from '../store/rollups/reading.ts';
import { byUse } from '../store/rollups/reading.ts';
import type { CountedField } from '../store/rows/observed-values.ts';
import { COUNTED_FIELDS, isCountedField } from '../store/rows/observed-values.ts';
import { answerJson } from './answer.ts';
import { fetched } from './listing.ts';
import { invalidParameter, one, pageOfTraces, traceQuery } from './query.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import type { StepRange } from './time-range.ts';
import { DAY_MS, hoursOf, widenedRange } from './time-range.ts';
import type { Walked } from './walk.ts';
import { walkStarted } from './walk.ts';

export const FACET_REQUEST: StoredRequest = {
  path: '/facets',
  parameters: ['field', 'prefix', 'q', 'from', 'to', 'limit'],
  work: showFacet,
};

/** Rollups of so much time are read in one turn; of more behind a part without values, because a range may begin decades before them. */
const CHUNK_MS = 31 * DAY_MS;
/** About the memory of a value and its count, beside the text. */
const VALUE_BYTES = 200;

type Asked = {
  readonly field: string;
  readonly prefix: string;
  readonly range: StepRange;
  readonly query: Query;
  /** The most values of the answer. */
  readonly limit: number;
};

/** The values of a field with the number of their traces, most used first. */
async function showFacet(reading: StoreReading): Promise<void> {
  const { exchange, query, read } = reading;
  const now = exchange.clock.now();
  const { limit } = pageOfTraces(query);
  const field = one(query, 'field') ?? '';
  const wanted = traceQuery(new URLSearchParams({ q: one(query, 'q') ?? '' }), now);
  const asked: Asked = {
    ...{ field, limit, query: wanted },
    prefix: one(query, 'prefix') ?? '',
    range: rangeOf(query, now, isOfHours(field, wanted)),
  };
  const counts = new Counts(asked.prefix);
  const { isPartial, searchedTo } = await countInto(counts, reading, asked);
  const answer = {
    field: asked.field,
    from: formatMs(asked.range.from),
    to: formatMs(asked.range.to),
    values: counts.mostUsed(limit).map(([value, traces]) => ({ value, traces })),
    others: counts.others,
    partial: isPartial,
    searched_to: searchedTo === null ? null : formatInstant(searchedTo),
  };
  answerJson(exchange, read, JSON.stringify(answer));
}

/** The traces of each value that begins with a text. */
class Counts {
  readonly #prefix: string;
  readonly #traces = new Map<string, number>();
  /** Traces whose values are counted together. */
  others = 0;
  #bytes = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  add(value: string, traces = 1): void {
    if (!value.startsWith(this.#prefix)) return;
    const known = this.#traces.get(value);
    if (known === undefined) this.#bytes += VALUE_BYTES + value.length;
    this.#traces.set(value, (known ?? 0) + traces);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Values with equally many traces are in the order of their text. */
  mostUsed(limit: number): FacetCount[] {
    return [...this.#traces].sort(byUse).slice(0, limit);
  }
}

/** The range of the request, in whole hours for counts from rollups. A bound that the request does not have is a whole hour. */
function rangeOf(query: URLSearchParams, now: number, isWidened: boolean): StepRange {
  const widened = (step: number): StepRange =>
    widenedRange(query, { now, byDefault: 30 * DAY_MS, step });
  const [hours, exact] = [widened(HOUR_MS), widened(1)];
  const isGiven = (name: string): boolean => one(query, name) !== undefined && !isWidened;
  return {
    from: isGiven('from') ? exact.from : hours.from,
    to: isGiven('to') ? exact.to : hours.to,
  };
}

/** Whether the rollups of whole hours have the counts; otherwise the traces of the range are counted. */
function isOfHours(field: string, { terms }: Query): boolean {
  return isRollupField(field) && terms.length === 0;
}

function countInto(counts: Counts, reading: StoreReading, asked: Asked): Promise<Walked> {
  const { field, query } = asked;
  if (isRollupField(field) && field !== 'all') {
    if (isOfHours(field, query)) return countRollups(counts, reading, field, asked);
    return countContributions(counts, reading, field, asked);
  }
  if (isCountedField(field)) return countRows(counts, reading, field, asked);
  throw invalidParameter('field', `must be one of ${FACET_FIELDS.join(', ')}, custom.KEY`);
}

async function countRollups(
  counts: Counts,
  reading: StoreReading,
  field: RollupField,
  { prefix, range, limit }: Asked,
): Promise<Walked> {
  const { store, tenant, read, reads, exchange } = reading;
  const latest = exchange.clock.now() + reads.limits.page_timeout;
  // The most used values of a part need not be those of the range.
  const most = range.to - range.from <= CHUNK_MS ? { most: limit } : {};
  let spent = 0;
  let end = range.to;
  let length = CHUNK_MS;
  let growth = 2;
  while (end > range.from) {
    const from = Math.max(range.from, end - length);
    const asked = { field, prefix, hours: hoursOf({ from, to: end }), ...most };
    const part = await fetched(read.turn(() => store.rollups.facet(tenant.projectId, asked)));
    if (part instanceof RetryableError) {
      if (length > CHUNK_MS) {
        length = CHUNK_MS;
        growth = 1;
        continue;
      }
      if (end === range.to) throw part;
      break;
    }
    for (const [value, traces] of part.values) counts.add(value, traces);
    counts.others += part.others;
    read.hold(counts.bytes);
    spent += part.spentMs;
    end = from;
    length = part.values.length + part.others === 0 ? length * growth : CHUNK_MS;
    if (spent >= reads.limits.page_time || exchange.clock.now() >= latest) break;
  }
  const isPartial = end > range.from;
  return { isPartial, searchedTo: isPartial ? { ms: end, ns: 0 } : null };
}

/** For a query: what each matching trace contributes. */
function countContributions(
  counts: Counts,
  reading: StoreReading,
  field: RollupField,
  asked: Asked,
): Promise<Walked> {
  const { store, tenant } = reading;
  const number = ROLLUP_FIELDS[field];
  return walkStarted(
    reading,
    asked,
    (filter) => store.rollups.listContributions(tenant.projectId, filter),
    ({ rollup }: ContributedTrace) => {
      for (const [, of, value] of changesOfField(rollup, field)) {
        if (of === number) counts.add(value);
        else if (of === -number) counts.others++;
      }
      return counts.bytes;
    },
  );
}

/** For a field without rollups: the values in the rows of the traces or of their observations. */
function countRows(
  counts: Counts,
  reading: StoreReading,
  field: CountedField,
  asked: Asked,
): Promise<Walked> {
  const { store, tenant } = reading;
  return walkStarted(
    reading,
    asked,
    (filter) => store.traces.countValues(tenant.projectId, field, filter),
    ([value, traces]) => {
      counts.add(value, traces);
      return counts.bytes;
    },
  );
}

const FACET_FIELDS = Object.keys(FIELDS).filter(
  (name) => isRollupField(name) || COUNTED_FIELDS.includes(name),
);
