import type {
  Branch,
  IdempotencyLedger,
  Pipeline,
  RequestHead,
} from '../../src/component/component.ts';
import type { Batch, Tenant } from '../../src/model/batch.ts';
import { rawOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { aTenant } from './batches.ts';

/** The behaviour of a sink for a batch: `ok`, an error to throw, or a function that decides. */
export type SinkBehaviour =
  | 'ok'
  | 'permanent'
  | 'retryable'
  | ((batch: Batch) => Promise<void> | void);

/** A consumer that keeps what it accepted. */
export type Sink = {
  consume(batch: Batch): Promise<void>;
  /** Batches it took over, in order. */
  readonly batches: Batch[];
  /** Ids of the raw batches behind them. */
  ids(): string[];
  behave(behaviour: SinkBehaviour): void;
  /** Resolves when it holds this many batches. */
  holds(count: number): Promise<void>;
};

export function createSink(initial: SinkBehaviour = 'ok'): Sink {
  let behaviour = initial;
  const batches: Batch[] = [];
  const waiting = new Set<{ count: number; resolve: () => void }>();
  return {
    batches,
    ids: () => batches.map((batch) => rawOf(batch).id),
    behave(next) {
      behaviour = next;
    },
    async consume(batch) {
      if (behaviour === 'permanent') throw new PermanentError('test_permanent', 'never');
      if (behaviour === 'retryable') throw new RetryableError('test_retryable', 'later');
      if (behaviour !== 'ok') await behaviour(batch);
      batches.push(batch);
      for (const waiter of waiting) {
        if (batches.length < waiter.count) continue;
        waiting.delete(waiter);
        waiter.resolve();
      }
    },
    holds(count) {
      if (batches.length >= count) return Promise.resolve();
      return new Promise((resolve) => waiting.add({ count, resolve }));
    },
  };
}

/** A pipeline that ends in a sink, for tests of receivers and connectors. */
export function sinkPipeline(
  sink: Sink,
  more: Partial<Pipeline> & { tenant?: Tenant } = {},
): Pipeline {
  const tenant = more.tenant ?? aTenant();
  const branches: readonly Branch[] = more.branches ?? [
    { exporterId: 'sink', consume: (batch) => sink.consume(batch) },
  ];
  return {
    id: more.id ?? 'traces',
    authenticate: more.authenticate ?? ((_head, _permission, fallback) => fallback ?? tenant),
    admit: more.admit ?? ((_head, fallback) => ({ tenant: fallback ?? tenant, release() {} })),
    process: more.process ?? ((batch) => Promise.resolve(batch)),
    consume: more.consume ?? ((batch) => sink.consume(batch)),
    branches,
    idempotency: more.idempotency,
    storeId: more.storeId,
    answerWithin: more.answerWithin,
  };
}

/** Keeps claims and answers in memory; `keep` plays the part of the durable append. */
export function memoryLedger(): IdempotencyLedger & {
  keep(batch: Batch): void;
} {
  const held = new Set<string>();
  const kept = new Map<
    string,
    { hash: Buffer; answer: { status: number; contentType: string; body: Buffer } }
  >();
  return {
    async claim(tenant, key, requestHash) {
      const name = `${tenant.projectId}/${key}`;
      const before = kept.get(name);
      if (before !== undefined) {
        if (!before.hash.equals(requestHash)) return { state: 'conflict' };
        return { state: 'replay', answer: before.answer };
      }
      if (held.has(name)) return { state: 'in_progress' };
      held.add(name);
      return { state: 'new', release: () => void held.delete(name) };
    },
    keep(batch) {
      const raw = rawOf(batch);
      if (raw.idempotency === undefined) return;
      const { key, requestHash, answer } = raw.idempotency;
      kept.set(`${raw.tenant.projectId}/${key}`, { hash: requestHash, answer: answer(raw) });
    },
  };
}

/** A request head as a receiver would make it. */
export function aHead(more: Partial<RequestHead> = {}): RequestHead {
  return {
    transport: 'http',
    method: 'POST',
    path: '/api/v1/ingest/batch',
    headers: new Map([['content-type', ['application/json']]]),
    remoteAddress: '127.0.0.1',
    receivedAt: Date.UTC(2026, 0, 15, 12, 0, 0),
    declaredBytes: undefined,
    ...more,
  };
}
