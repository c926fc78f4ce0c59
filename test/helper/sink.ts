import type {
  Branch,
  IdempotencyLedger,
  Pipeline,
  RequestHead,
} from '../../src/component/component.ts';
import type { Batch, ReceivedBatch, Tenant } from '../../src/model/batch.ts';
import { rawOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { RequestContext } from '../../src/model/request-context.ts';
import { seal } from '../../src/model/seal.ts';
import { aTenant } from './batches.ts';

/** The behaviour of a sink for a batch: `ok`, an error to throw, or a function that decides. */
export type SinkBehaviour =
  | 'ok'
  | 'permanent'
  | 'retryable'
  | ((batch: Batch) => Promise<void> | void);

/** A consumer that keeps what it accepted. */
export type Sink = {
  consume(batch: Batch, request?: RequestContext): Promise<void>;
  /** Batches it took over, in order. */
  readonly batches: Batch[];
  /** The requests behind them. */
  readonly requests: (RequestContext | undefined)[];
  /** Ids of the raw batches behind them. */
  ids(): string[];
  behave(behaviour: SinkBehaviour): void;
  /** Resolves when it holds this many batches. */
  holds(count: number): Promise<void>;
};

export function createSink(initial: SinkBehaviour = 'ok'): Sink {
  let behaviour = initial;
  const batches: Batch[] = [];
  const requests: (RequestContext | undefined)[] = [];
  const waiting = new Set<{ count: number; resolve: () => void }>();
  return {
    batches,
    requests,
    ids: () => batches.map((batch) => rawOf(batch).id),
    behave(next) {
      behaviour = next;
    },
    async consume(batch, request) {
      if (behaviour === 'permanent') throw new PermanentError('test_permanent', 'never');
      if (behaviour === 'retryable') throw new RetryableError('test_retryable', 'later');
      if (behaviour !== 'ok') await behaviour(batch);
      batches.push(batch);
      requests.push(request);
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
    admit: more.admit ?? ((_head, fallback) => ({ tenant: fallback ?? tenant, release() {} })),
    admitRead:
      more.admitRead ?? ((_head, fallback) => ({ tenant: fallback ?? tenant, release() {} })),
    process: more.process ?? ((batch) => Promise.resolve(batch)),
    accept: more.accept ?? acceptInto(sink),
    consume: more.consume ?? ((batch) => sink.consume(batch)),
    branches,
    idempotency: more.idempotency,
    offers: more.offers ?? [],
    answerWithin: more.answerWithin,
  };
}

/** The accepting part of a pipeline: `decide` in place of its processors, then the seal, then the sink. */
export function acceptInto(
  sink: Sink,
  decide: (batch: ReceivedBatch, request: RequestContext) => Promise<void> | void = () => {},
): Pipeline['accept'] {
  return async (batch, request) => {
    await decide(batch, request);
    const sealed = seal(batch, request);
    await request.storeBeside?.(sealed);
    await sink.consume(sealed, request);
    return sealed;
  };
}

/** Keeps claims and answers in memory; `keep` plays the part of the durable append. */
export function memoryLedger(): IdempotencyLedger & {
  keep(batch: Batch, request?: RequestContext): void;
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
    keep(batch, request) {
      if (request?.answer === undefined) return;
      const { key, requestHash, ...answer } = request.answer;
      kept.set(`${rawOf(batch).tenant.projectId}/${key}`, { hash: requestHash, answer });
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
