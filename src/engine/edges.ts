import type { Clock, Labels, Logger, Metrics } from '../component/component.ts';
import { countByLabel } from '../component/labelled-counts.ts';
import { lineSpacing } from '../component/line-spacing.ts';
import { PermanentError, Refusal, RepeatedRequest, RetryableError } from '../model/errors.ts';
import type { Rejection, RejectionCode } from '../model/rejection.ts';

/** Counts the requests and items that a receiver or connector gives to its pipeline. */
export type ReceiverEdge = {
  /** A request was refused before its body was read. */
  turnedAway(error: unknown): void;
  accepted(items: number, rejections: readonly Rejection[]): void;
  /** A queue gave items to the processors; it delivers them to each exporter separately. */
  delivered(items: number): void;
  /** The batch was not accepted. */
  refused(items: number, error: unknown): void;
  /** Begins a request or batch; the returned function records its duration. */
  begin(): () => void;
  /** Admitted requests that are not yet answered. */
  inFlight: number;
};

/** Counts the items that a processor gets and passes on. */
export type ProcessorEdge = {
  incoming(items: number): void;
  outgoing(items: number): void;
  rejected(code: RejectionCode): void;
  /** Items that it left out without rejecting them: filtered or sampled. */
  dropped(items: number, reason: string): void;
  /** Items whose bytes it changed. */
  edited(items: number): void;
  /** It threw in a callback that must not throw: `settle`, or the release of an admission. */
  fault(error: unknown): void;
};

/** Counts the items that an exporter or connector took over or failed to. */
export type ExporterEdge = {
  sent(items: number): void;
  failed(items: number, error: unknown): void;
  /** Begins a delivery; the returned function records its duration. */
  begin(): () => void;
};

/** The counters between components, so that components do not count items themselves. */
export type Edges = {
  receiver(kind: 'receiver' | 'connector', id: string, pipeline: string): ReceiverEdge;
  processor(id: string, pipeline: string): ProcessorEdge;
  exporter(id: string, pipeline: string, kind: 'exporter' | 'connector'): ExporterEdge;
  /** Admitted requests of all receivers that are not yet answered. */
  inFlight(): number;
};

/** The names of the durations, as docs/metrics.md lists them. */
export const DURATIONS = {
  receiver: 'tracectl_receiver_request_duration_seconds',
  connector: 'tracectl_connector_delivery_duration_seconds',
  exporter: 'tracectl_exporter_send_duration_seconds',
} as const;

export function createEdges(metrics: Metrics, logger: Logger, clock: Clock): Edges {
  const faults = createFaultLog(logger, clock);
  const counters = countersOf(metrics);
  const timer = timersOf(metrics, clock);
  const inFlight = new Map<string, { labels: Labels; edge: ReceiverEdge }>();
  metrics.gauge('tracectl_receiver_in_flight_requests', 'Admitted requests in progress.', () =>
    [...inFlight.values()].map(({ labels, edge }) => ({ value: edge.inFlight, labels })),
  );
  return {
    receiver(kind, id, pipeline) {
      const labels = { [kind]: id, pipeline };
      const known = inFlight.get(`${kind} ${id} ${pipeline}`);
      if (known !== undefined) return known.edge;
      const fault = (error: unknown) => faults(kind, id, error);
      const edge = { ...receiverEdge(counters, kind, labels, fault), begin: timer(kind, labels) };
      if (kind === 'receiver') inFlight.set(`${kind} ${id} ${pipeline}`, { labels, edge });
      return edge;
    },
    processor: (id, pipeline) =>
      processorEdge(counters, { processor: id, pipeline }, (error) => {
        faults('processor', id, error);
      }),
    exporter(id, pipeline, kind) {
      const labels = { exporter: id, pipeline, kind };
      const edge = exporterEdge(counters, labels, (error) => faults(kind, id, error));
      return { ...edge, begin: timer('exporter', labels) };
    },
    inFlight: () => [...inFlight.values()].reduce((sum, { edge }) => sum + edge.inFlight, 0),
  };
}

type Counters = ReturnType<typeof countersOf>;

/** Returns a function that makes the `begin` of an edge. */
function timersOf(metrics: Metrics, clock: Clock) {
  const durations = {
    receiver: metrics.histogram(
      DURATIONS.receiver,
      'Seconds from the complete body of a request to the outcome of its pipeline.',
    ),
    connector: metrics.histogram(
      DURATIONS.connector,
      'Seconds that a pipeline takes for a batch that a connector passes straight on.',
    ),
    exporter: metrics.histogram(
      DURATIONS.exporter,
      'Seconds that an exporter, or the queue of a connector, takes for a batch, also if it fails.',
    ),
  };
  return (kind: keyof typeof durations, labels: Labels) => () => {
    const beganAt = clock.now();
    return () => durations[kind].record(Math.max(0, clock.now() - beganAt) / 1000, labels);
  };
}

function countersOf(metrics: Metrics) {
  return {
    requests: metrics.counter(
      'tracectl_receiver_requests_total',
      'Requests that reached a pipeline, by outcome: accepted, rejected (no item was accepted), repeated, refused, failed.',
    ),
    refusals: metrics.counter(
      'tracectl_receiver_refusals_total',
      'Requests that a pipeline refused as a whole, by code.',
    ),
    accepted: metrics.counter(
      'tracectl_receiver_accepted_items_total',
      'Items whose client reads that they were accepted.',
    ),
    refused: metrics.counter(
      'tracectl_receiver_refused_items_total',
      'Items of requests that were not accepted.',
    ),
    rejected: metrics.counter('tracectl_receiver_rejected_items_total', 'Rejected items, by code.'),
    delivered: metrics.counter(
      'tracectl_connector_delivered_items_total',
      'Items that a connector handed to a pipeline.',
    ),
    deliveredByReceiver: metrics.counter(
      'tracectl_receiver_delivered_items_total',
      'Items of a queue that a receiver handed to its pipeline.',
    ),
    undelivered: metrics.counter(
      'tracectl_connector_undelivered_items_total',
      'Items that a connector could not pass straight on.',
    ),
    incoming: metrics.counter(
      'tracectl_processor_incoming_items_total',
      'Items given to a processor.',
    ),
    outgoing: metrics.counter(
      'tracectl_processor_outgoing_items_total',
      'Items that a processor passed on.',
    ),
    dropped: metrics.counter(
      'tracectl_processor_dropped_items_total',
      'Items that a processor left out without rejecting them, by reason.',
    ),
    rejectedByProcessor: metrics.counter(
      'tracectl_processor_rejected_items_total',
      'Items that a processor rejected, by code.',
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
): Omit<ReceiverEdge, 'begin'> {
  const outcomes = countByLabel(counters.requests, labels, 'outcome');
  const refusals = countByLabel(counters.refusals, labels, 'code');
  const rejections = countByLabel(counters.rejected, labels, 'code');
  const isReceiver = kind === 'receiver';
  const acceptedItems = isReceiver ? counters.accepted : counters.delivered;
  const deliveredItems = isReceiver ? counters.deliveredByReceiver : counters.delivered;
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
    delivered: (items) => deliveredItems.add(items, labels),
    refused(items, error) {
      if (error instanceof RepeatedRequest) return outcomes('repeated', 1);
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
  const drops = countByLabel(counters.dropped, labels, 'reason');
  const rejections = countByLabel(counters.rejectedByProcessor, labels, 'code');
  return {
    fault,
    incoming: (items) => counters.incoming.add(items, labels),
    outgoing: (items) => counters.outgoing.add(items, labels),
    rejected: (code) => rejections(code, 1),
    dropped: (items, reason) => drops(reason, items),
    edited: (items) => counters.edited.add(items, labels),
  };
}

function exporterEdge(
  counters: Counters,
  { kind, ...rest }: { exporter: string; pipeline: string; kind: string },
  fault: (error: unknown) => void,
): Omit<ExporterEdge, 'begin'> {
  const labels: Labels = { ...rest, kind };
  const failures = countByLabel(counters.failed, labels, 'code');
  return {
    sent: (items) => counters.sent.add(items, labels),
    failed(items, error) {
      if (error instanceof RepeatedRequest) return;
      failures(codeOfError(error), items);
      fault(error);
    },
  };
}

function isExpected(error: unknown): error is RetryableError | PermanentError | Refusal {
  return (
    error instanceof RetryableError || error instanceof PermanentError || error instanceof Refusal
  );
}

/** The error's code; `internal` for an error of a class that no component should throw. */
function codeOfError(error: unknown): string {
  return isExpected(error) ? error.code : 'internal';
}

/** Milliseconds in which the unexpected errors of a component are logged as one line. */
const FAULT_LOG_INTERVAL_MS = 10_000;

/** Logs errors of an unexpected class, which are faults of the program, at a bounded rate. */
function createFaultLog(logger: Logger, clock: Clock) {
  const spacing = lineSpacing(clock, FAULT_LOG_INTERVAL_MS);
  return (kind: string, id: string, error: unknown): void => {
    if (isExpected(error)) return;
    const suppressed = spacing(`${kind}:${id}`);
    if (suppressed === undefined) return;
    logger.error({ component: id, kind, err: error, suppressed }, 'Component failed unexpectedly');
  };
}
