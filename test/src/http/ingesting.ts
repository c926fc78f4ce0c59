import type { Test } from 'tap';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock, Labels, Pipeline } from '../../../src/component/component.ts';
import type { BodyRate } from '../../../src/http/body-pace.ts';
import { faultLog } from '../../../src/http/fault-log.ts';
import type { Protocol } from '../../../src/http/ingest.ts';
import { ingest } from '../../../src/http/ingest.ts';
import type { KeptAnswers } from '../../../src/http/kept-answers.ts';
import type { Listener } from '../../../src/http/listener.ts';
import { nativeProtocol } from '../../../src/http/native-protocol.ts';
import { incomingOf } from '../../../src/http/receiver.ts';
import type { Repeats } from '../../../src/http/repeats.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { RejectionEntry, RejectionStore } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeEvent } from '../../helper/batches.ts';
import type { TestListeners } from '../../helper/http.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import type { Sink } from '../../helper/sink.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

export const MIB = 1_048_576;
export const MAX = 25 * MIB;
export const PATH = '/batch';

type Served = {
  readonly url: string;
  readonly sink: Sink;
  readonly listeners: TestListeners;
  readonly listener: Listener;
  /** Admissions and bytes of bodies that are held. */
  held(): { admissions: number; bytes: number };
  /** The log of refusals and rejections, oldest first. */
  readonly log: RejectionEntry[];
  /** Codes of counted refusals. */
  readonly refusals: string[];
};

export async function served(
  t: Test,
  more: {
    pipeline?: (sink: Sink) => Partial<Pipeline>;
    inFlightBytes?: number;
    /** Of the listeners. */
    clock?: Clock;
    repeats?: Repeats | undefined;
    kept?: KeptAnswers;
    readTimeout?: number;
    bodyRate?: BodyRate;
    maxConnections?: number;
    protocol?: Partial<Protocol>;
  } = {},
): Promise<Served> {
  const sink = createSink();
  const listeners = testListeners(more.inFlightBytes, more.clock);
  const listener = await listeners.bind('127.0.0.1:0', {
    ...USUAL_LIMITS,
    readTimeout: more.readTimeout ?? USUAL_LIMITS.readTimeout,
    bodyRate: more.bodyRate ?? USUAL_LIMITS.bodyRate,
    maxConnections: more.maxConnections ?? USUAL_LIMITS.maxConnections,
  });
  let admissions = 0;
  const log: RejectionEntry[] = [];
  const rejections: Partial<RejectionStore> = { record: (entry) => void log.push(entry) };
  const pipeline = sinkPipeline(sink, {
    offers: [offer(STORE, { rejections } as Store)],
    admit() {
      admissions++;
      return { tenant: aTenant(), release: () => void admissions-- };
    },
    ...more.pipeline?.(sink),
  });
  const protocol = { ...nativeProtocol('native'), ...more.protocol };
  const refusals: string[] = [];
  const ingestion = {
    pipeline,
    protocol,
    fallback: undefined,
    bytesInFlight: listeners.bytesInFlight,
    scanner: listeners.scanner,
    repeats: more.repeats,
    kept: more.kept ?? listeners.kept,
    feedback: undefined,
    clock: systemClock,
    logger: listeners.logger,
    faults: faultLog(listeners.logger, systemClock),
    refusals: { add: (_amount: number, labels?: Labels) => void refusals.push(labels?.code ?? '') },
  };
  listener.route({
    method: 'POST',
    path: PATH,
    renderRefusal: protocol.renderRefusal,
    handler: (exchange) => ingest(incomingOf(exchange, protocol.renderRefusal), ingestion),
  });
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  return {
    url: urlOf(listener) + PATH,
    sink,
    listeners,
    listener,
    held: () => ({ admissions, bytes: listeners.bytesInFlight.held }),
    log,
    refusals,
  };
}

export function lastOf(sink: Sink): SealedBatch {
  const batch = sink.batches.at(-1);
  if (batch === undefined) throw new Error('no batch');
  return rawOf(batch);
}

export const NOTHING_HELD = { admissions: 0, bytes: 0 };

export async function post(
  url: string,
  body: Buffer | string | ReadableStream,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; json: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);
  return {
    status: response.status,
    headers: response.headers,
    json: (await response.json()) as Record<string, unknown>,
  };
}

export function events(count = 1): Buffer {
  const list = Array.from({ length: count }, (_, i) => nativeEvent({ id: `o-${i}` }));
  return Buffer.from(JSON.stringify({ events: list }));
}

/** A valid body of exactly this many bytes. */
export function padded(total: number): Buffer {
  const body = events();
  return Buffer.concat([body, Buffer.alloc(total - body.length, ' ')]);
}

export function chunked(body: Buffer, size = 65_536): ReadableStream {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) controller.close();
      else controller.enqueue(body.subarray(at, at + size));
      at += size;
    },
  });
}
