import type { ControlRequest, ControlResponse } from '../control/protocol.ts';
import type { HealthReport } from '../telemetry/health.ts';

/**
 * What the process that watches and its workers tell each other, as JSON over the channel between them:
 *
 *   watcher ── ask ──▶ worker          worker ── answer ──▶ watcher
 *                                      worker ── ready, health (every second) ──▶ watcher
 */
export type ToWorker = { readonly type: 'ask'; readonly id: number; readonly question: Question };

export type Question =
  | { readonly kind: 'metrics' }
  | { readonly kind: 'control'; readonly request: ControlRequest };

export type FromWorker =
  | { readonly type: 'ready'; readonly endpoints: readonly Served[] }
  | { readonly type: 'health'; readonly report: HealthReport }
  | { readonly type: 'answer'; readonly id: number; readonly response: ControlResponse };

/** A listener, and what it serves. */
export type Served = { readonly url: string; readonly routes: readonly string[] };

/** How often a worker tells how it is. */
export const HEALTH_EVERY_MS = 1_000;
