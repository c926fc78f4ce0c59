import type { HealthReport } from '../component/health.ts';
import type { FileTexts } from '../config/file-texts.ts';
import type { ControlRequest, ControlResponse } from '../control/protocol.ts';
import type { FirstProject } from '../tenancy/bootstrap.ts';

/**
 * What the process that watches and its workers tell each other, as JSON over the channel between them:
 *
 *   watcher ── configuration, before anything ──▶ worker
 *   watcher ── ask ──▶ worker          worker ── answer ──▶ watcher
 *                                      worker ── ready, health (every second) ──▶ watcher
 */
export type ToWorker =
  | { readonly type: 'configuration'; readonly files: FileTexts }
  | { readonly type: 'ask'; readonly id: number; readonly question: Question };

export type Question =
  | { readonly kind: 'metrics' }
  | { readonly kind: 'reload'; readonly files: FileTexts }
  | { readonly kind: 'control'; readonly request: ControlRequest };

export type FromWorker =
  | { readonly type: 'ready'; readonly shown: Shown }
  | { readonly type: 'health'; readonly report: HealthReport }
  | { readonly type: 'answer'; readonly id: number; readonly response: ControlResponse };

/** What a start prints of a process. */
export type Shown = {
  /** Listeners, and what they serve. */
  readonly endpoints: readonly { readonly url: string; readonly routes: readonly string[] }[];
  /** Where it is managed; without `tokenFile` the token is as configured. */
  readonly managed: readonly { readonly url: string; readonly tokenFile: string | undefined }[];
  /** What a store made for itself at this start. */
  readonly first: FirstProject | undefined;
};

/** How often a worker tells how it is. */
export const HEALTH_EVERY_MS = 1_000;
