import type { Clock, Metrics } from '../component/component.ts';
import { fairTurns } from '../component/fair-turns.ts';
import type { Tenant } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import type { BatchCache } from './batch-cache.ts';
import { createBatchCache } from './batch-cache.ts';
import type { ReadReservation } from './budget.ts';
import { readBudget } from './budget.ts';
import { pacing } from './pace.ts';
import type { ReadPlaces } from './places.ts';
import { createPlaces, projectShare } from './places.ts';
import type { ScoreBytes } from './score-bytes.ts';
import { scoreBytes } from './score-bytes.ts';

/** The limits of reading, from `service.limits`. */
export type ReadLimits = {
  /** Bytes of all reading requests in memory. */
  readonly read_bytes: number;
  /** Reading requests of a key in progress. */
  readonly reads_per_key: number;
  /** Reading requests that use a store at once. */
  readonly concurrent_reads: number;
  /** Bytes of a page's items, after which the page ends. */
  readonly page_bytes: number;
  /** Milliseconds of the store's work for a page, after which the page ends. */
  readonly page_time: number;
  /** Points of an answer of statistics. */
  readonly stats_points: number;
  /** Milliseconds after which a page ends, with all waiting. */
  readonly page_timeout: number;
  /** Scores of a trace and of its observations. */
  readonly scores_per_trace: number;
  /** Inflated bytes of batches that are kept for later reads: half of them small ones, half of them large ones. */
  readonly read_cache_bytes: number;
  /** Milliseconds for which a request may wait for a trace. */
  readonly wait_timeout: number;
  /** Requests that wait for a trace at once, of a key and of all. */
  readonly waits_per_key: number;
  readonly waits: number;
  /** Streams of a key, of a project, and of all, at once. */
  readonly streams_per_key: number;
  readonly streams_per_project: number;
  readonly streams: number;
  /** Exports in progress, of a key and of all. */
  readonly exports_per_key: number;
  readonly concurrent_exports: number;
};

/**
 * The one owner of what reading may use. Every path that reads a store for a client begins a read here:
 *
 *   begin(tenant, signal) ── too many of the key: 429, no memory: 503
 *        └▶ turn(work) …            the store, in turns between projects
 *        └▶ hold(…), reservation    memory of the answer and of raw batches
 *        └▶ end()                   the answer is written, or the client is gone
 */
export type Reads = {
  readonly limits: ReadLimits;
  readonly heldBytes: number;
  readonly exports: ReadPlaces;
  /** The small batches that are kept for later reads. */
  readonly batches: BatchCache;
  /** The requests that wait for a trace. */
  readonly waits: ReadPlaces;
  readonly streams: ReadPlaces;
  /** The scores that clients store. */
  readonly scores: ScoreBytes;
  /** Throws a `Refusal` (429, 503). The signal is aborted when the client goes away. */
  begin(tenant: Tenant, signal: AbortSignal): Read;
  close(): void;
};

export type Read = {
  readonly signal: AbortSignal;
  /** For raw batches, which a read loads beside its working memory. */
  readonly reservation: ReadReservation;
  /** Reserves this many bytes for texts, as far as the working memory has no room. Throws a `Refusal` (503). */
  hold(bytes: number): void;
  /** Every use of a store goes through here. Rejects with the signal's reason once the client is gone. */
  turn<T>(work: () => Promise<T>): Promise<T>;
  /** A second call has no effect. */
  end(): void;
};

/** Memory of a request and of the rows and the text that it works on. */
const WORKING_BYTES = 262_144;

/** Milliseconds after which a refused client is asked to try again. */
const RETRY_MS = 1_000;
const EXPORT_RETRY_MS = 5_000;

/** Places of requests that stay for long. */
function placesIn(limits: ReadLimits): Pick<Reads, 'waits' | 'streams' | 'exports'> {
  const waits = createPlaces({
    ...{ what: 'requests that wait', key: limits.waits_per_key },
    ...{ project: projectShare(limits.waits), all: limits.waits, retryMs: RETRY_MS },
  });
  const streams = createPlaces({
    ...{ what: 'streams of traces', key: limits.streams_per_key },
    ...{ project: limits.streams_per_project, all: limits.streams, retryMs: RETRY_MS },
  });
  const exports = createPlaces({
    ...{ what: 'exports in progress', key: limits.exports_per_key },
    project: projectShare(limits.concurrent_exports),
    ...{ all: limits.concurrent_exports, retryMs: EXPORT_RETRY_MS },
  });
  return { waits, streams, exports };
}

export type ReadsOptions = {
  readonly limits: ReadLimits;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Whether requests of clients that send are in progress; undefined where nothing is accepted beside the reads. */
  readonly isAccepting?: () => boolean;
};

export function createReads({ limits, metrics, clock, isAccepting }: ReadsOptions): Reads {
  const budget = readBudget(limits.read_bytes);
  const { waits, streams, exports } = placesIn(limits);
  const pace = isAccepting && pacing({ clock, isAccepting });
  const turns = fairTurns(limits.concurrent_reads, pace?.begun);
  /** Only keys with reads in progress. */
  const ofKey = new Map<string, number>();
  const removers = [
    metrics.gauge('tracectl_read_bytes', 'Bytes held for reading requests.', () => [
      { value: budget.held },
    ]),
    metrics.gauge('tracectl_read_turns', 'Turns of reading requests at a store, by state.', () => [
      { value: turns.running, labels: { state: 'running' } },
      { value: turns.waiting, labels: { state: 'waiting' } },
    ]),
    metrics.gauge('tracectl_read_waits', 'Reading requests that wait for a trace.', () => [
      { value: waits.taken },
    ]),
    metrics.gauge('tracectl_read_streams', 'Streams of traces in progress.', () => [
      { value: streams.taken },
    ]),
    metrics.gauge('tracectl_read_exports', 'Exports of stored data in progress.', () => [
      { value: exports.taken },
    ]),
  ];

  function enter(keyId: string): void {
    const known = ofKey.get(keyId) ?? 0;
    if (known >= limits.reads_per_key) {
      throw new Refusal(
        'rate_limited',
        `This key has ${limits.reads_per_key} reading requests in progress. Try again.`,
        { retryAfterMs: RETRY_MS },
      );
    }
    ofKey.set(keyId, known + 1);
  }

  function leave(keyId: string): void {
    const left = (ofKey.get(keyId) ?? 1) - 1;
    if (left > 0) ofKey.set(keyId, left);
    else ofKey.delete(keyId);
  }

  return {
    limits,
    exports,
    batches: createBatchCache(limits.read_cache_bytes / 2),
    waits,
    streams,
    scores: scoreBytes(clock),
    get heldBytes() {
      return budget.held;
    },
    begin({ projectId, keyId }, signal) {
      enter(keyId);
      const reservation = budget.reserve(projectId);
      try {
        reservation.grow(WORKING_BYTES);
      } catch (error) {
        leave(keyId);
        throw error;
      }
      let held = WORKING_BYTES;
      let hasEnded = false;
      return {
        signal,
        reservation,
        hold(bytes) {
          if (bytes <= held) return;
          reservation.grow(bytes - held);
          held = bytes;
        },
        turn: (work) => turns.take(projectId, signal, work),
        end() {
          if (hasEnded) return;
          hasEnded = true;
          reservation.release();
          leave(keyId);
        },
      };
    },
    close() {
      for (const remove of removers) remove();
      pace?.close();
    },
  };
}
