import type { Clock } from '../../component/component.ts';
import type { Stop } from './stop.ts';

/** A line of one of the sources. */
export type LinePosition = { readonly source: number; readonly line: number };

/** One request, made when it is sent. */
export type SendRequest = {
  /** Its origin, for messages: `FILE:3`, `FILE:3-7`. */
  readonly name: string;
  readonly spans: number;
  /** The first line, and the line to resume from after the request; undefined for samples. */
  readonly from: LinePosition | undefined;
  readonly next: LinePosition | undefined;
  encode(): Buffer | Promise<Buffer>;
  /** Smaller requests with the same spans, for a server that refuses the size; empty for one span. */
  halves(): readonly SendRequest[];
};

export type RequestSender = {
  open(): Promise<void>;
  /** True when the server has answered for every span; false if the run stopped before. */
  send(request: SendRequest): Promise<boolean>;
  /** Aborts the requests in flight. */
  close(): Promise<void>;
};

export type Pace = {
  /** The most requests in flight. */
  readonly concurrency: number;
  /** Spans a second; undefined is no limit. */
  readonly rate: number | undefined;
};

/**
 * Sends the requests in order, several at once, until the last one or the stop. Resolves with the position to
 * resume from; undefined if every request is answered.
 */
export async function pump(
  requests: AsyncIterator<SendRequest>,
  start: LinePosition,
  sender: RequestSender,
  stop: Stop,
  clock: Clock,
  { concurrency, rate }: Pace,
): Promise<LinePosition | undefined> {
  // In order: the run resumes from the first one.
  const unanswered = new Set<SendRequest>();
  const inFlight = new Set<Promise<void>>();
  let next: LinePosition | undefined = start;
  let dueAt = 0;
  for (;;) {
    while (inFlight.size >= concurrency) await Promise.race(inFlight);
    const request = await nextOf(requests, stop);
    if (request === undefined) break;
    next = request.next;
    unanswered.add(request);
    const now = clock.now();
    await stop.sleep(dueAt - now);
    if (rate !== undefined) dueAt = Math.max(dueAt, now) + (request.spans / rate) * 1000;
    const work = sender
      .send(request)
      .then((isAnswered) => void (isAnswered && unanswered.delete(request)))
      .finally(() => inFlight.delete(work));
    inFlight.add(work);
  }
  await Promise.all(inFlight);
  if (stop.reason === undefined) return undefined;
  const [first] = unanswered;
  return first === undefined ? next : first.from;
}

/** Undefined after the last request or the stop, which does not wait for a read from a terminal or a pipe. */
async function nextOf(
  requests: AsyncIterator<SendRequest>,
  stop: Stop,
): Promise<SendRequest | undefined> {
  if (stop.reason === undefined) {
    const read = await stop.before(requests.next());
    if (read !== undefined) return read.done === true ? undefined : read.value;
  }
  requests.return?.().catch(() => {});
  return undefined;
}
