import { pause } from '../component/clock.ts';
import type { Clock } from '../component/component.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Query } from '../query/query.ts';
import { UNNAMED } from '../store/changes.ts';
import { traceJson } from '../store/observation-json.ts';
import { MATCHED_IDS } from '../store/plan/match.ts';
import { answerHead, clientDrained } from './answer.ts';
import { givingWay } from './giving-way.ts';
import { checkParameters, flag, traceQuery } from './query.ts';
import { SHOW_TRACE } from './show-trace.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';

/** Changes that come within this time are read together, in milliseconds. */
const GATHER_MS = 200;
/** A comment is sent after this time without an event, so that proxies and clients know that the stream is alive. */
const HEARTBEAT_MS = 15_000;
/** How often a stream looks whether the listener stops. */
const LOOK_MS = 1_000;
/** How often the client of a stream is admitted again: its key may have been revoked. */
const ADMIT_MS = 15_000;
/** Changed traces that wait for a slow client. Further ones are counted; the client gets the count. */
export const MOST_WAITING = 1_000;

const PARAMETERS = ['q', 'left'];
const HEADERS = {
  ...{ 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
  'x-accel-buffering': 'no',
};

/**
 * Server-sent events: one for each trace that is new or has changed, and matches. With `left=true`, the ids of those that have changed
 * and do not match, or were erased, are sent too: a client that lists the traces of a query removes them.
 *
 *   write ─▶ ids ─▶ Gathered (each id once) ─▶ turn: rows that match ─▶ events, at the pace of the client
 *                      │                         └ the other ids ─▶ event: left
 *                      └ more than MOST_WAITING, or without an id ─▶ counted ─▶ event: lagged
 */
export const STREAM_TRACES: StoredRequest = {
  path: '/traces/stream',
  parameters: [...PARAMETERS, ...SHOW_TRACE.parameters],
  work: (reading) => (takesEvents(reading.exchange) ? streamTraces(reading) : showStream(reading)),
};

/** A client that takes JSON and no events reads the trace whose id is `stream`. */
async function showStream(reading: StoreReading): Promise<void> {
  checkParameters(reading.query, SHOW_TRACE.parameters);
  const exchange = { ...reading.exchange, params: { trace_id: 'stream' } };
  await SHOW_TRACE.work({ ...reading, exchange });
}

function takesEvents({ head }: Exchange): boolean {
  const accept = String(head.headers.get('accept') ?? '').toLowerCase();
  return !accept.includes('application/json') || accept.includes('text/event-stream');
}

async function streamTraces(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read, reads } = reading;
  checkParameters(query, PARAMETERS);
  const asked = {
    query: traceQuery(query, exchange.clock.now()),
    withLeft: flag(query, 'left'),
  };
  if (answerHead(exchange, HEADERS)) return;
  const gathered = new Gathered();
  const wake = (): void => gathered.wake();
  const way = givingWay(exchange, wake);
  const leave = reads.streams.take(tenant, way.ask);
  read.signal.addEventListener('abort', wake, { once: true });
  const unwatch = store.changes.watch(tenant.projectId, (ids) => gathered.add(ids));
  try {
    const { response } = exchange;
    response.writeHead(200, HEADERS);
    await send(exchange, ': the stream begins\n\n');
    // A clock that is set back makes both due.
    const since = (at: number): number => Math.abs(exchange.clock.now() - at);
    let quietSince = exchange.clock.now();
    let admittedAt = quietSince;
    while (!read.signal.aborted && !exchange.stopping() && !way.isAsked) {
      await gathered.some(exchange.clock, LOOK_MS);
      if (since(admittedAt) >= ADMIT_MS) {
        if ((await reading.isStillAdmitted?.()) === false) break;
        admittedAt = exchange.clock.now();
      }
      const text = await events(reading, asked, gathered);
      if (text !== '') await send(exchange, text);
      else if (since(quietSince) >= HEARTBEAT_MS) await send(exchange, ': alive\n\n');
      else continue;
      quietSince = exchange.clock.now();
    }
    response.end();
  } finally {
    unwatch();
    way.end();
    leave();
  }
}

type Asked = { readonly query: Query; readonly withLeft: boolean };

/** The events of the ids that wait. */
async function events(
  { store, tenant, read }: StoreReading,
  { query, withLeft }: Asked,
  gathered: Gathered,
): Promise<string> {
  const { ids, missed } = gathered.take(MATCHED_IDS);
  let text = missed === 0 ? '' : eventOf('lagged', JSON.stringify({ missed }));
  if (ids.length === 0) return text;
  const traces = await read.turn(() => store.traces.findMatching(tenant.projectId, query, ids));
  for (const trace of traces) text += eventOf('trace', traceJson(trace));
  if (withLeft) text += leftOf(ids, traces);
  read.hold(text.length * 2);
  return text;
}

/** The ids that no trace has. */
function leftOf(ids: readonly string[], traces: readonly { readonly id: string }[]): string {
  const matching = new Set(traces.map(({ id }) => id));
  const left = ids.filter((id) => !matching.has(id));
  return left.length === 0 ? '' : eventOf('left', JSON.stringify({ ids: left }));
}

/** JSON has no line ends. */
function eventOf(type: 'trace' | 'left' | 'lagged', data: string): string {
  return `event: ${type}\ndata: ${data}\n\n`;
}

async function send(exchange: Exchange, text: string): Promise<void> {
  if (!exchange.response.write(text)) await clientDrained(exchange);
}

/** The changed traces that a stream has yet to read, each once. */
export class Gathered {
  readonly #ids = new Set<string>();
  #missed = 0;
  #wake: (() => void) | undefined;

  add(ids: readonly string[]): void {
    for (const id of ids) {
      if (this.#ids.has(id)) continue;
      if (id !== UNNAMED && this.#ids.size < MOST_WAITING) this.#ids.add(id);
      else this.#missed++;
    }
    this.#wake?.();
  }

  /** Takes the first ids, and the number of changes that were left out since the last time. */
  take(most: number): { readonly ids: readonly string[]; readonly missed: number } {
    const ids = [...this.#ids].slice(0, most);
    for (const id of ids) this.#ids.delete(id);
    const missed = this.#missed;
    this.#missed = 0;
    return { ids, missed };
  }

  /** Resolves a little after the first change, or after `ms`. */
  async some(clock: Clock, ms: number): Promise<void> {
    if (this.#ids.size === 0) await this.#change(clock, ms);
    if (this.#ids.size > 0 && this.#ids.size < MATCHED_IDS) await pause(clock, GATHER_MS);
  }

  /** Ends a wait for a change. */
  wake(): void {
    this.#wake?.();
  }

  async #change(clock: Clock, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = clock.after(ms, resolve);
    this.#wake = resolve;
    await promise;
    this.#wake = undefined;
    cancel();
  }
}
