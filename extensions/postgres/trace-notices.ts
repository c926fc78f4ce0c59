import type { Clock, Logger } from '../../src/component/component.ts';
import type { ChangeListener, TraceChanges } from '../../src/store/changes.ts';
import { ChangeFeed } from '../../src/store/changes.ts';

export type TraceNoticeKind = 'watch' | 'traces';

/** Sends a notice to all other processes. */
export type SendNotice = (kind: TraceNoticeKind, text: string) => Promise<void>;

/** How often a process says that it watches a project, and how long others believe it, in milliseconds. */
const RENEW_MS = 5_000;
const BELIEVED_MS = 15_000;
/** Changes of this time share a notice, in milliseconds. */
const GATHER_MS = 100;
/** Bytes of the ids of a notice: Postgres takes less than 8,000. */
const NOTICE_BYTES = 7_000;
/** Changed traces of a project that wait to be sent; the oldest ones go first. */
const MOST_WAITING = 10_000;

/**
 * Changed traces of all processes. Processes with listeners say which projects they watch; a process that writes into one of them
 * sends the ids of the traces, after the commit. Nothing is sent for projects that no other process watches.
 *
 *   stream ─▶ watch(project) ─▶ notice `watch` ─▶ every other process
 *   listener ◀─ notice `traces` ◀─ ids of GATHER_MS ◀─ publish(project, ids) there
 */
export class TraceNotices implements TraceChanges {
  readonly #feed = new ChangeFeed();
  /** Listeners of this process, by project. */
  readonly #watching = new Map<string, number>();
  /** The times up to which other processes watch projects, in milliseconds since the epoch. */
  readonly #watchedUntil = new Map<string, number>();
  readonly #waiting = new Map<string, Set<string>>();
  readonly #clock: Clock;
  readonly #logger: Pick<Logger, 'debug'>;
  readonly #send: SendNotice;
  #cancelRenewing: (() => void) | undefined;
  #cancelSending: (() => void) | undefined;
  #isClosed = false;

  constructor(
    send: SendNotice,
    { clock, logger }: { clock: Clock; logger: Pick<Logger, 'debug'> },
  ) {
    this.#send = send;
    this.#clock = clock;
    this.#logger = logger;
  }

  isWatched(projectId: string): boolean {
    return this.#feed.isWatched(projectId) || this.#isWatchedElsewhere(projectId);
  }

  watch(projectId: string, listener: ChangeListener): () => void {
    const unwatch = this.#feed.watch(projectId, listener);
    const before = this.#watching.get(projectId) ?? 0;
    this.#watching.set(projectId, before + 1);
    if (before === 0) this.#tell('watch', projectId);
    this.#cancelRenewing ??= this.#clock.after(RENEW_MS, () => this.#renew());
    let isWatching = true;
    return () => {
      if (!isWatching) return;
      isWatching = false;
      unwatch();
      const left = (this.#watching.get(projectId) ?? 1) - 1;
      if (left > 0) this.#watching.set(projectId, left);
      else this.#watching.delete(projectId);
    };
  }

  /** Called after the commit of a write of this process. */
  publish(projectId: string, traceIds: readonly string[]): void {
    this.#feed.publish(projectId, traceIds);
    if (!this.#isWatchedElsewhere(projectId)) return;
    const waiting = this.#waiting.get(projectId) ?? new Set();
    this.#waiting.set(projectId, waiting);
    for (const id of traceIds) if (waiting.size < MOST_WAITING) waiting.add(id);
    this.#cancelSending ??= this.#clock.after(GATHER_MS, () => this.#sendWaiting());
  }

  /** A notice of another process. */
  heard(kind: TraceNoticeKind, text: string): void {
    if (kind === 'watch') {
      this.#watchedUntil.set(text, this.#clock.now() + BELIEVED_MS);
      return;
    }
    const space = text.indexOf(' ');
    const ids = JSON.parse(text.slice(space + 1)) as string[];
    this.#feed.publish(text.slice(0, space), ids);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRenewing?.();
    this.#cancelSending?.();
  }

  #isWatchedElsewhere(projectId: string): boolean {
    const until = this.#watchedUntil.get(projectId);
    if (until === undefined) return false;
    if (until > this.#clock.now()) return true;
    this.#watchedUntil.delete(projectId);
    return false;
  }

  #renew(): void {
    this.#cancelRenewing = undefined;
    if (this.#watching.size === 0) return;
    for (const projectId of this.#watching.keys()) this.#tell('watch', projectId);
    this.#cancelRenewing = this.#clock.after(RENEW_MS, () => this.#renew());
  }

  #sendWaiting(): void {
    this.#cancelSending = undefined;
    for (const [projectId, ids] of this.#waiting) {
      for (const some of noticesOf(ids)) this.#tell('traces', `${projectId} ${some}`);
    }
    this.#waiting.clear();
  }

  /** A lost notice is a missed event of a stream. */
  #tell(kind: TraceNoticeKind, text: string): void {
    if (this.#isClosed) return;
    this.#send(kind, text).catch((err: unknown) => {
      this.#logger.debug({ err }, 'Notice of changed traces could not be sent');
    });
  }
}

/** The ids as JSON lists that each fit into a notice. An id that does not fit alone is left out. */
function noticesOf(ids: Iterable<string>): string[] {
  const notices: string[] = [];
  let list = '';
  let bytes = 0;
  for (const id of ids) {
    const text = JSON.stringify(id);
    const size = Buffer.byteLength(text) + 1;
    if (size > NOTICE_BYTES) continue;
    if (bytes + size > NOTICE_BYTES) {
      notices.push(`[${list}]`);
      [list, bytes] = ['', 0];
    }
    list += bytes === 0 ? text : `,${text}`;
    bytes += size;
  }
  if (bytes > 0) notices.push(`[${list}]`);
  return notices;
}
