import type { Metrics } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import type { BatchCache } from './batch-cache.ts';
import { createBatchCache } from './batch-cache.ts';
import type { ReadReservation } from './budget.ts';
import { readBudget } from './budget.ts';
import type { ExportLimits, ExportPlaces } from './export/places.ts';
import { exportPlaces } from './export/places.ts';
import { fairTurns } from './turns.ts';

/** The limits of reading, from `service.limits`. */
export type ReadLimits = ExportLimits & {
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
  readonly exports: ExportPlaces;
  /** The small batches that are kept for later reads. */
  readonly batches: BatchCache;
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

const KEY_RETRY_MS = 1_000;

export function createReads(limits: ReadLimits, metrics: Metrics): Reads {
  const budget = readBudget(limits.read_bytes);
  const turns = fairTurns(limits.concurrent_reads);
  const exports = exportPlaces(limits);
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
        { retryAfterMs: KEY_RETRY_MS },
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
    },
  };
}
