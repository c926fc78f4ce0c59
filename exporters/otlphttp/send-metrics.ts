import type { Metrics } from '../../src/component/component.ts';

/** What the exporter counts beside what the engine counts for it. */
export type SendMetrics = {
  sent(spans: number): void;
  rejected(spans: number): void;
  answered(status: number): void;
  retried(code: string): void;
  held(status: number): void;
  split(): void;
};

export function createSendMetrics(metrics: Metrics, exporter: string): SendMetrics {
  const requests = metrics.counter(
    'tracectl_otlphttp_requests_total',
    'Requests that were answered, by status.',
  );
  const sent = metrics.counter(
    'tracectl_otlphttp_sent_spans_total',
    'Spans that the destination took.',
  );
  const rejected = metrics.counter(
    'tracectl_otlphttp_rejected_spans_total',
    'Spans that the destination left out of a batch it took (partial success).',
  );
  const retries = metrics.counter(
    'tracectl_otlphttp_retries_total',
    'Requests that failed in a way that may pass, by code.',
  );
  const holds = metrics.counter(
    'tracectl_otlphttp_holds_total',
    'Answers that hold everything back until somebody mends their cause, by status.',
  );
  const splits = metrics.counter(
    'tracectl_otlphttp_splits_total',
    'Requests that were too large for the destination and sent again in parts.',
  );
  const own = { exporter };
  return {
    sent: (spans) => sent.add(spans, own),
    rejected: (spans) => rejected.add(spans, own),
    answered: (status) => requests.add(1, { ...own, status: String(status) }),
    retried: (code) => retries.add(1, { ...own, code }),
    held: (status) => holds.add(1, { ...own, status: String(status) }),
    split: () => splits.add(1, own),
  };
}
