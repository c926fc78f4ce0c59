import type { Metrics, Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { countByLabel } from '../../src/component/labelled-counts.ts';
import { oldestAgeSeconds, summaryGauges } from '../../src/queue/gauges.ts';
import type { DurableQueue } from '../../src/queue/queue.ts';
import type { OtlpHttpConfig } from './config.ts';
import type { OpenSpans } from './open-spans.ts';
import type { Sender } from './sender.ts';

/** The counters of requests to the destination. The engine counts batches and items. */
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
    'Spans that the destination accepted.',
  );
  const rejected = metrics.counter(
    'tracectl_otlphttp_rejected_spans_total',
    'Spans that the destination rejected in a partial success.',
  );
  const retries = metrics.counter(
    'tracectl_otlphttp_retries_total',
    'Requests that failed and are retried, by code.',
  );
  const holds = metrics.counter(
    'tracectl_otlphttp_holds_total',
    'Responses that hold all data back until an operator corrects their cause, by status.',
  );
  const splits = metrics.counter(
    'tracectl_otlphttp_splits_total',
    'Requests that were too large for the destination and were sent again in parts.',
  );
  const own = { exporter };
  const answers = countByLabel(requests, own, 'status');
  const failures = countByLabel(retries, own, 'code');
  const refusals = countByLabel(holds, own, 'status');
  return {
    sent: (spans) => sent.add(spans, own),
    rejected: (spans) => rejected.add(spans, own),
    answered: (status) => answers(String(status), 1),
    retried: (code) => failures(code, 1),
    held: (status) => refusals(String(status), 1),
    split: () => splits.add(1, own),
  };
}

/** A destination without a success for this long counts as unhealthy. */
const FAILING_MS = 60_000;

/** Reports the queue and the destination as gauges and health; returns a function that removes both. */
export function report(
  settings: Settings,
  config: OtlpHttpConfig,
  queue: DurableQueue | undefined,
  sender: Sender,
  openSpans: OpenSpans | undefined,
): () => void {
  const { id, metrics, host } = settings;
  const exporter = { exporter: id };
  const gauge = (name: string, description: string, read: () => number) =>
    metrics.gauge(name, description, () => [{ value: read(), labels: exporter }]);
  const removers = [
    gauge(
      'tracectl_otlphttp_held',
      '1 while the destination refuses all requests and the exporter holds its data back',
      () => (sender.held === undefined ? 0 : 1),
    ),
    host.service(HEALTH_REGISTRY).register(id, () => healthOf(settings, config, queue, sender)),
  ];
  if (openSpans !== undefined) {
    removers.push(
      gauge(
        'tracectl_otlphttp_open_spans',
        'Observations that started and wait for their finish',
        () => openSpans.size,
      ),
    );
  }
  if (queue !== undefined) {
    removers.push(
      summaryGauges(metrics, settings.clock, exporter, queue),
      metrics.gauge('tracectl_queue_items', 'Items that wait in the queue', () =>
        queue.stats().branches.map(({ branch, items }) => ({
          value: items,
          labels: { ...exporter, branch },
        })),
      ),
      gauge(
        'tracectl_queue_bytes',
        'Bytes of bodies that wait in the queue',
        () => queue.stats().bytes,
      ),
      gauge(
        'tracectl_quarantined_entries',
        'Damaged entries that were set aside',
        () => queue.stats().quarantined,
      ),
    );
  }
  return () => {
    for (const remove of removers) remove();
  };
}

function healthOf(
  { clock }: Settings,
  config: OtlpHttpConfig,
  queue: DurableQueue | undefined,
  sender: Sender,
): ComponentHealth {
  const now = clock.now();
  const destination = destinationHealth(sender, now);
  if (queue === undefined) {
    return { ...destination, details: { durability: "the destination's own" } };
  }
  const { branches, bytes, deadLetters, quarantined } = queue.stats();
  const entries = branches.reduce((sum, branch) => sum + branch.entries, 0);
  const items = branches.reduce((sum, branch) => sum + branch.items, 0);
  const { sizer, queue_size } = config.sending_queue;
  const isFull = { requests: entries, items, bytes }[sizer] >= queue_size;
  return {
    ready: !isFull,
    ...(isFull ? { message: 'The queue is full.' } : {}),
    ...destination,
    details: {
      durability: 'synced to disk before the answer',
      queued_entries: entries,
      queued_items: items,
      oldest_age_seconds: oldestAgeSeconds(branches, now),
      bytes,
      dead_letters: deadLetters,
      quarantined,
    },
  };
}

function destinationHealth({ held, failingSince }: Sender, now: number): ComponentHealth {
  if (held !== undefined) {
    return { healthy: false, message: `The destination refuses all requests: ${held.message}` };
  }
  if (now - (failingSince ?? now) > FAILING_MS) {
    return { healthy: false, message: 'The destination fails or does not answer.' };
  }
  return {};
}
