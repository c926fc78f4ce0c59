import type { HealthReport } from '../component/health.ts';
import type { FileTexts } from '../config/file-texts.ts';
import type { ControlRequest, ControlResponse } from '../control/protocol.ts';
import type { FirstProject } from '../tenancy/bootstrap.ts';

/**
 * Messages between the supervisor and its workers, as JSON over the channel of the child process:
 *
 *   supervisor ── configuration, first ──▶ worker
 *   supervisor ── ask ──▶ worker       worker ── answer ──▶ supervisor
 *                                      worker ── ready, health (every second) ──▶ supervisor
 *   supervisor ── answer ──▶ worker    worker ── command over all workers ──▶ supervisor
 */
export type ToWorker =
  | { readonly type: 'configuration'; readonly files: FileTexts }
  | { readonly type: 'ask'; readonly id: number; readonly question: WorkerQuestion }
  | { readonly type: 'answer'; readonly id: number; readonly response: ControlResponse };

export type WorkerQuestion =
  | { readonly kind: 'metrics' }
  | { readonly kind: 'reload'; readonly files: FileTexts }
  | { readonly kind: 'control'; readonly request: ControlRequest };

export type FromWorker =
  | { readonly type: 'ready'; readonly shown: Shown }
  | { readonly type: 'health'; readonly report: HealthReport }
  | { readonly type: 'answer'; readonly id: number; readonly response: ControlResponse }
  | { readonly type: 'command'; readonly id: number; readonly request: ControlRequest };

/** The facts of a process that the welcome text shows. */
export type Shown = {
  /** Listeners with their routes. */
  readonly endpoints: readonly { readonly url: string; readonly routes: readonly string[] }[];
  /** Admin APIs. `tokenFile` is undefined when the configuration holds the token. */
  readonly managed: readonly { readonly url: string; readonly tokenFile: string | undefined }[];
  /** The projects and keys of stores whose first key no user has seen yet, one for each store. */
  readonly firsts: readonly FirstInStore[];
  /** A store has keys that commands can manage. */
  readonly hasStore: boolean;
};

/** `store` is the id of the store's extension. */
export type FirstInStore = FirstProject & { readonly store: string };

/** Interval of a worker's health reports. */
export const HEALTH_EVERY_MS = 1_000;
