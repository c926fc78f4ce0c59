import type { Clock, Counter, Labels, Logger, Metrics } from '../component/component.ts';
import { PermanentError, Refusal, RetryableError } from '../model/errors.ts';
import type { Rejection } from '../model/rejection.ts';

/** How a request ended, as seen from its pipeline. */
export type RequestOutcome = 'accepted' | 'rejected' | 'refused' | 'failed';

/** Counts what a receiver hands to its pipeline. */
export type ReceiverEdge = {
  /** A request was refused on its head alone. */
  turnedAway(error: unknown): void;
  accepted(items: number, rejections: readonly Rejection[]): void;
  /** Nobody took the batch over. */
  refused(items: number, error: unknown): void;
  /** Requests admitted and not yet over. */
  inFlight: number;
};

/** Counts what goes into a processor and comes out. */
export type ProcessorEdge = {
  incoming(items: number): void;
  outgoing(items: number): void;
  /** Items that it left out without rejecting them: filtered or sampled. */
  dropped(items: number, reason: string): void;
  /** Items whose bytes it changed. */
  edited(items: number): void;
  /** It threw where it must not: when told an outcome, or when giving back what it held. */
  fault(error: unknown): void;
};

/** Counts what an exporter or connector took over or not. */
export type ExporterEdge = {
  sent(items: number): void;
  failed(items: number, error: unknown): void;
};

/** Every count on every edge; components need none of their own for this. */
export type Edges = {
  receiver(kind: 'receiver' | 'connector', id: string, pipeline: string): ReceiverEdge;
  processor(id: string, pipeline: string): ProcessorEdge;
  exporter(id: string, pipeline: string, kind: 'exporter' | 'connector'): ExporterEdge;
  /** Requests admitted and not yet over, over all receivers. */
  inFlight(): number;
};

export function createEdges(metrics: Metrics, logger: Logger, clock: Clock): Edges {
  const faults = createFaultLog(logger, clock);
  const counters = countersOf(metrics);
  const inFlight = new Map<string, { labels: Labels; edge: ReceiverEdge }>();
  metrics.gauge(
    'tracectl_receiver_in_flight_requests',
    'Requests that were admitted and are not over.',
    () => [...inFlight.values()].map(({ labels, edge }) => ({ value: edge.inFlight, labels })),
  );
  return {
    receiver(kind, id, pipeline) {
      const labels = { [kind]: id, pipeline };
      const known = inFlight.get(`${kind} ${id} ${pipeline}`);
      if (known !== undefined) return known.edge;
      const edge = receiverEdge(counters, kind, labels, (error) => faults(kind, id, error));
      if (kind === 'receiver') inFlight.set(`${kind} ${id} ${pipeline}`, { labels, edge });
      return edge;
    },
    processor: (id, pipeline) =>
      processorEdge(counters, { processor: id, pipeline }, (error) => {
        faults('processor', id, error);
      }),
    exporter: (id, pipeline, kind) =>
      exporterEdge(counters, { exporter: id, pipeline, kind }, (error) => faults(kind, id, error)),
    inFlight: () => [...inFlight.values()].reduce((sum, { edge }) => sum + edge.inFlight, 0),
  };
}

type Counters = ReturnType<typeof countersOf>;

function countersOf(metrics: Metrics) {
  return {
    requests: metrics.counter(
      'tracectl_receiver_requests_total',
      'Requests that reached a pipeline, by outcome: accepted, rejected (no item was accepted), refused, failed.',
    ),
    refusals: metrics.counter(
      'tracectl_receiver_refusals_total',
      'Requests that a pipeline refused as a whole, by code.',
    ),
    accepted: metrics.counter(
      'tracectl_receiver_accepted_items_total',
      'Items that the pipeline took over.',
    ),
    refused: metrics.counter(
      'tracectl_receiver_refused_items_total',
      'Items of requests that nobody took over.',
    ),
    rejected: metrics.counter(
      'tracectl_receiver_rejected_items_total',
      'Items that were rejected one by one, by code.',
    ),
    delivered: metrics.counter(
      'tracectl_connector_delivered_items_total',
      'Items that a connector handed to a pipeline as a whole.',
    ),
    undelivered: metrics.counter(
      'tracectl_connector_undelivered_items_total',
      'Items that a connector could not hand to a pipeline as a whole.',
    ),
    incoming: metrics.counter(
      'tracectl_processor_incoming_items_total',
      'Items given to a processor.',
    ),
    outgoing: metrics.counter(
      'tracectl_processor_outgoing_items_total',
      'Items that came out of a processor.',
    ),
    dropped: metrics.counter(
      'tracectl_processor_dropped_items_total',
      'Items that a processor took out as configured, without rejecting them.',
    ),
    edited: metrics.counter(
      'tracectl_processor_edited_items_total',
      'Items whose bytes a processor masked or replaced before they were durable.',
    ),
    sent: metrics.counter(
      'tracectl_exporter_sent_items_total',
      'Items that an exporter delivered or a connector took over.',
    ),
    failed: metrics.counter(
      'tracectl_exporter_send_failed_items_total',
      'Items in deliveries that failed, once for each attempt.',
    ),
  };
}

function receiverEdge(
  counters: Counters,
  kind: 'receiver' | 'connector',
  labels: Labels,
  fault: (error: unknown) => void,
): ReceiverEdge {
  const outcomes = byValue(counters.requests, labels, 'outcome');
  const refusals = byValue(counters.refusals, labels, 'code');
  const rejections = byValue(counters.rejected, labels, 'code');
  const isReceiver = kind === 'receiver';
  const acceptedItems = isReceiver ? counters.accepted : counters.delivered;
  const refusedItems = isReceiver ? counters.refused : counters.undelivered;
  const failed = (error: unknown) => {
    fault(error);
    if (!isReceiver) return;
    outcomes(error instanceof Refusal ? 'refused' : 'failed', 1);
    refusals(codeOfError(error), 1);
  };
  return {
    inFlight: 0,
    turnedAway: failed,
    accepted(items, rejected) {
      if (items > 0) acceptedItems.add(items, labels);
      if (!isReceiver) return;
      outcomes(items > 0 || rejected.length === 0 ? 'accepted' : 'rejected', 1);
      for (const { code } of rejected) rejections(code, 1);
    },
    refused(items, error) {
      refusedItems.add(items, labels);
      failed(error);
    },
  };
}

function processorEdge(
  counters: Counters,
  labels: Labels,
  fault: (error: unknown) => void,
): ProcessorEdge {
  const drops = byValue(counters.dropped, labels, 'reason');
  return {
    fault,
    incoming: (items) => counters.incoming.add(items, labels),
    outgoing: (items) => counters.outgoing.add(items, labels),
    dropped: (items, reason) => drops(reason, items),
    edited: (items) => counters.edited.add(items, labels),
  };
}

function exporterEdge(
  counters: Counters,
  { kind, ...rest }: { exporter: string; pipeline: string; kind: string },
  fault: (error: unknown) => void,
): ExporterEdge {
  const labels: Labels = { ...rest, kind };
  const failures = byValue(counters.failed, labels, 'code');
  return {
    sent: (items) => counters.sent.add(items, labels),
    failed(items, error) {
      failures(codeOfError(error), items);
      fault(error);
    },
  };
}

/** Counts by one more label; its labels objects are made once, so that counting stays cheap. */
function byValue(
  counter: Counter,
  labels: Labels,
  name: string,
): (value: string, n: number) => void {
  const known = new Map<string, Labels>();
  return (value, n) => {
    let all = known.get(value);
    if (all === undefined) {
      all = { ...labels, [name]: value };
      known.set(value, all);
    }
    counter.add(n, all);
  };
}

function isExpected(error: unknown): error is RetryableError | PermanentError | Refusal {
  return (
    error instanceof RetryableError || error instanceof PermanentError || error instanceof Refusal
  );
}

/** The error's code; `internal` for what no component should throw. */
export function codeOfError(error: unknown): string {
  return isExpected(error) ? error.code : 'internal';
}

/** Milliseconds in which a component's unexpected errors make one line. */
const FAULT_LOG_INTERVAL_MS = 10_000;

/** Errors that nobody declared are faults of ours: they are logged, but never a line for every batch. */
function createFaultLog(logger: Logger, clock: Clock) {
  const last = new Map<string, { at: number; suppressed: number }>();
  return (kind: string, id: string, error: unknown): void => {
    if (isExpected(error)) return;
    const key = `${kind}:${id}`;
    const before = last.get(key);
    const now = clock.now();
    if (before !== undefined && now - before.at < FAULT_LOG_INTERVAL_MS && now >= before.at) {
      before.suppressed++;
      return;
    }
    last.set(key, { at: now, suppressed: 0 });
    const suppressed = before?.suppressed ?? 0;
    logger.error({ component: id, kind, error, suppressed }, 'A component failed unexpectedly.');
  };
}
