import { Worker } from 'node:worker_threads';
import {
  DamagedDataError,
  type DataError,
  NewerDataError,
  PermanentError,
  RetryableError,
} from '../model/errors.ts';
import { threadFile } from '../thread/thread.ts';
import type {
  AttachedFile,
  Call,
  Failure,
  Opening,
  ThreadAccess,
  ThreadData,
  ThreadMessage,
} from './operation.ts';
import { isDamage, isFull, isRefusedRow, isUnreadable, isUnwritable } from './result-code.ts';

/** A group is closed at this weight (about bytes), so that one transaction never delays the next for long. */
const GROUP_WEIGHT = 4 * 1024 * 1024;
const GROUP_CALLS = 1024;
/** The longest that a lazy call waits for the next group, unless it says how long. */
const LAZY_MS = 20;

type Waiting = {
  readonly call: Call;
  readonly weight: number;
  readonly moved: ArrayBuffer | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
};

export type CallOptions = {
  /** The weight of the call in its group, roughly in bytes. */
  readonly weight?: number;
  /** Bytes among the arguments that the caller no longer uses: they move to the thread uncopied. */
  readonly moved?: ArrayBuffer;
  /** The caller is in no hurry: the call may wait for the next group, for 20 ms or so many milliseconds. */
  readonly lazy?: boolean | number;
};

/**
 * The main side of a database thread. One group is in flight; calls that arrive in that time form the next group.
 * If the thread is idle, the first call waits for the end of the event loop's turn, so that later calls of the
 * same turn join it. `extensions/postgres/grouping.ts` groups calls for a round trip; this one for a sync.
 */
export type ThreadClient = {
  call(call: Call, options?: CallOptions): Promise<unknown>;
  readonly opening: Opening;
  /** Whether the thread has ended: every call rejects. */
  readonly isEnded: boolean;
  close(): Promise<void>;
  /** Ends the thread as a crash would. */
  kill(): Promise<void>;
};

/** Events of a thread beside the answers to its calls. */
export type ThreadEvents = {
  reserveUsed?(): void;
  /** A call failed because the file is damaged. The call is undefined if it is a write, which cannot be repeated. */
  damaged?(message: string, call: Call | undefined): void;
  /** The path does not lead to the thread's file any more. */
  moved?(path: string): void;
  /** A write failed because the file system refused it. */
  unwritable?(message: string): void;
  /** A call failed because the file system could not read a part of the file. */
  unreadable?(access: ThreadAccess, message: string): void;
  /** A call failed because of an attached file. */
  attachedFailed?(file: AttachedFile, message: string): void;
  /** A sync failed: the thread writes no more. */
  unsynced?(message: string): void;
  /** A group of writes went to the thread. */
  sent?(): void;
  /** The group of writes in flight has its answers, or gets none. */
  answered?(): void;
  /** The thread ended without `close` or `kill`. */
  ended?(access: ThreadAccess, reason: Error): void;
};

/** Rejects with the thread's reason if the database cannot be opened. */
export async function startThread(
  data: ThreadData,
  events: ThreadEvents = {},
): Promise<ThreadClient> {
  const worker = new Worker(threadFile(import.meta.url, 'thread'), {
    workerData: data,
    name: `sqlite ${data.access}`,
    // A worker refuses some flags of its parent, such as --input-type and --eval.
    execArgv: [],
  });
  return new GroupingClient(worker, data.access, await started(worker, data.file), events);
}

function started(worker: Worker, file: string): Promise<Opening> {
  return new Promise((resolve, reject) => {
    const onError = (error: unknown): void => {
      worker.off('error', onError).off('exit', onExit).off('message', onMessage);
      worker.on('error', () => undefined);
      void worker.terminate();
      reject(error);
    };
    const onExit = (code: number): void => {
      onError(new Error(`the database thread ended with status ${code}`));
    };
    const onMessage = (message: ThreadMessage): void => {
      if (message.type === 'unusable') onError(openingError(file, message.failure));
      if (message.type !== 'ready') return;
      worker.off('error', onError).off('exit', onExit).off('message', onMessage);
      resolve(message.opening);
    };
    worker.on('error', onError).on('exit', onExit).on('message', onMessage);
  });
}

class GroupingClient implements ThreadClient {
  readonly opening: Opening;
  readonly #worker: Worker;
  readonly #access: ThreadAccess;
  readonly #events: ThreadEvents;
  #waiting: Waiting[] = [];
  #inFlight: Waiting[] = [];
  #isScheduled = false;
  #lazyTimer: NodeJS.Timeout | undefined;
  #lazyDue = 0;
  #ended: Error | undefined;
  #closing: PromiseWithResolvers<void> | undefined;
  #isKilled = false;

  constructor(worker: Worker, access: ThreadAccess, opening: Opening, events: ThreadEvents) {
    this.opening = opening;
    this.#worker = worker;
    this.#access = access;
    this.#events = events;
    worker.on('message', (message: ThreadMessage) => {
      if (message.type === 'done') this.#settle(message);
    });
    worker.on('error', (error) => this.#end(error));
    worker.on('exit', () => {
      const isOurs = this.#closing !== undefined || this.#isKilled;
      this.#end(new Error(isOurs ? 'the database is closed' : 'the database thread ended'));
    });
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  call(call: Call, options: CallOptions = {}): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#closing !== undefined) {
      return Promise.reject(new RetryableError('storage_failed', 'the database is closing'));
    }
    return new Promise((resolve, reject) => {
      const { weight = 0, moved } = options;
      this.#waiting.push({ call, weight, moved, resolve, reject });
      const { lazy = false } = options;
      if (lazy === false) this.#schedule();
      else if (!this.#isScheduled && this.#inFlight.length === 0) {
        this.#sendWithin(lazy === true ? LAZY_MS : lazy);
      }
    });
  }

  #sendWithin(ms: number): void {
    const due = performance.now() + ms;
    if (this.#lazyTimer !== undefined && this.#lazyDue <= due) return;
    clearTimeout(this.#lazyTimer);
    this.#lazyDue = due;
    this.#lazyTimer = setTimeout(() => this.#send(), ms);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#inFlight.length > 0) return;
    this.#isScheduled = true;
    setImmediate(() => this.#send());
  }

  #send(): void {
    this.#isScheduled = false;
    if (this.#ended !== undefined || this.#inFlight.length > 0 || this.#waiting.length === 0)
      return;
    clearTimeout(this.#lazyTimer);
    this.#lazyTimer = undefined;
    const count = this.#groupSize();
    const all = this.#waiting;
    this.#inFlight = count === all.length ? all : all.slice(0, count);
    this.#waiting = count === all.length ? [] : all.slice(count);
    if (this.#access === 'write') this.#events.sent?.();
    this.#worker.postMessage(
      this.#inFlight.map((each) => each.call),
      this.#inFlight.flatMap(({ moved }) => moved ?? []),
    );
  }

  #groupSize(): number {
    let weight = 0;
    let count = 0;
    for (const each of this.#waiting) {
      if (count === GROUP_CALLS || (count > 0 && weight + each.weight > GROUP_WEIGHT)) break;
      weight += each.weight;
      count++;
    }
    return count;
  }

  #settle(message: ThreadMessage & { type: 'done' }): void {
    const group = this.#inFlight;
    this.#inFlight = [];
    if (this.#access === 'write') this.#events.answered?.();
    if (message.reserveUsed) this.#events.reserveUsed?.();
    if (message.moved !== undefined) this.#events.moved?.(message.moved);
    this.#tellOfDamage(group, message);
    if (this.#access === 'write') this.#tellOfWrites(message);
    if (message.moved === undefined && message.unsynced === undefined) this.#tellOfReads(message);
    for (const { attached, message: text } of message.failures?.filter(isFailure) ?? []) {
      if (attached !== undefined) this.#events.attachedFailed?.(attached, text);
    }
    for (let i = 0; i < group.length; i++) {
      const failure = message.failures?.[i];
      if (failure === undefined) group[i]?.resolve(message.results[i]);
      else group[i]?.reject(errorOf(failure));
    }
    if (this.#waiting.length > 0) this.#schedule();
    else if (this.#closing !== undefined) this.#worker.postMessage('close');
  }

  #tellOfDamage(group: readonly Waiting[], { failures }: ThreadMessage & { type: 'done' }): void {
    const at = failures?.findIndex((failure) => isDamage(failure?.errcode)) ?? -1;
    const damage = failures?.[at];
    if (damage === undefined) return;
    this.#events.damaged?.(damage.message, this.#access === 'read' ? group[at]?.call : undefined);
  }

  #tellOfWrites({ failures, moved, unsynced }: ThreadMessage & { type: 'done' }): void {
    if (moved !== undefined) return;
    if (unsynced !== undefined) {
      this.#events.unsynced?.(unsynced);
      return;
    }
    const refused = failures?.find((failure) => isUnwritable(failure?.errcode));
    if (refused !== undefined) this.#events.unwritable?.(refused.message);
  }

  #tellOfReads({ failures }: ThreadMessage & { type: 'done' }): void {
    // SQLite reports most parts of a disk that cannot be read as damage.
    const unread = failures?.find(
      (failure) => isUnreadable(failure?.errcode) || isDamage(failure?.errcode),
    );
    if (unread !== undefined) this.#events.unreadable?.(this.#access, unread.message);
  }

  /** Rejects every call without an answer. Whether the group in flight was written is unknown. */
  #end(reason: unknown): void {
    if (this.#ended !== undefined) return;
    const message = reason instanceof Error ? reason.message : String(reason);
    this.#ended = new RetryableError('storage_failed', message, { cause: reason });
    clearTimeout(this.#lazyTimer);
    for (const each of [...this.#inFlight, ...this.#waiting]) each.reject(this.#ended);
    this.#inFlight = [];
    this.#waiting = [];
    if (this.#access === 'write') this.#events.answered?.();
    if (this.#closing === undefined && !this.#isKilled) {
      this.#events.ended?.(this.#access, this.#ended);
    }
    this.#closing?.resolve();
  }

  /** Writes the waiting calls, then closes the connection. */
  close(): Promise<void> {
    if (this.#ended !== undefined) return Promise.resolve();
    if (this.#closing === undefined) {
      this.#closing = Promise.withResolvers<void>();
      if (this.#waiting.length > 0) this.#schedule();
      else if (this.#inFlight.length === 0) this.#worker.postMessage('close');
    }
    return this.#closing.promise;
  }

  async kill(): Promise<void> {
    this.#isKilled = true;
    await this.#worker.terminate();
  }
}

const DATA_ERRORS: Record<DataError['code'], new (message: string) => DataError> = {
  newer_data: NewerDataError,
  damaged_data: DamagedDataError,
};

/** SQLite names no file, and an operator has to find its owner and permissions. */
function openingError(file: string, failure: Failure): Error {
  const { errcode, dataError, message } = failure;
  if (errcode === undefined || dataError !== undefined) return errorOf(failure);
  if (isFull(errcode)) return diskFull(`no space is left on the disk of ${file}: free some`);
  const text = `${file} cannot be opened: ${message}`;
  return isDamage(errcode) ? new RetryableError('storage_failed', text) : new Error(text);
}

function diskFull(message: string): RetryableError {
  return new RetryableError('disk_full', message, { retryAfterMs: 5000 });
}

function isFailure(failure: Failure | undefined): failure is Failure {
  return failure !== undefined;
}

function errorOf({ message, errcode, dataError, attached }: Failure): Error {
  if (dataError !== undefined) return new DATA_ERRORS[dataError](message);
  if (attached !== undefined) return new RetryableError('storage_failed', message);
  if (errcode === undefined) return new Error(message);
  if (isFull(errcode)) return diskFull('no space is left on the disk');
  if (isDamage(errcode)) return new RetryableError('storage_failed', `the database: ${message}`);
  if (isRefusedRow(errcode)) return new PermanentError('storage_refused', message);
  return new RetryableError('storage_failed', message, { retryAfterMs: 1000 });
}
