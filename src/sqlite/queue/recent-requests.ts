import type { Clock } from '../../component/component.ts';
import type { SealedBatch } from '../../model/batch.ts';
import { RepeatedRequest } from '../../model/errors.ts';
import type { KeyedAnswer, StoredAnswer } from '../../model/request-context.ts';
import { wholeAnswer, wholeBatchOf } from '../../model/request-context.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import { fingerprintOf, RecentIndex } from './recent-index.ts';
import type { RecentAnswer, RecentRow } from './recent-operations.ts';

/** A request with an implicit key whose batch is appended. */
export type RecentRequest = {
  readonly tag: string;
  readonly answer: StoredAnswer;
  readonly row: RecentRow;
};

/** A request with an implicit key. `keptFor` is the time for which it is remembered. */
export function recentRequest(
  { tenant, id }: SealedBatch,
  { key, status, contentType, body }: KeyedAnswer,
  keptFor: number,
  now: number,
): RecentRequest {
  const tag = recentTag(tenant.projectId, key);
  const answer = { status, contentType, body };
  const expiresAt = now + keptFor;
  const row: RecentRow =
    wholeBatchOf(answer) === id
      ? [tag, expiresAt, null, null, null]
      : [tag, expiresAt, status, contentType, new Uint8Array(body)];
  return { tag, answer, row };
}

/** Identifies an implicit key of a project, as text. The key tells the requests of one project apart. */
export function recentTag(projectId: string, key: string): string {
  return `${key.slice(1)} ${projectId}`;
}

/**
 * Recognizes requests without an `Idempotency-Key` that repeat an earlier one of the same file.
 *
 *   append ─▶ the same request in flight? ──▶ waits for its commit
 *          ─▶ in the index? ──▶ the row in the log has the answer: `RepeatedRequest`
 *          ─▶ appended with a row in the log, then added to the index
 *
 * The index has durable requests only: it is read from the log at a start, and gets a request after its commit.
 */
export class RecentRequests {
  readonly #database: Database<QueueOperations>;
  readonly #clock: Clock;
  readonly #index = new RecentIndex();
  /** The answers of the requests that are being appended, by tag; undefined for one that failed. */
  readonly #inFlight = new Map<string, Promise<StoredAnswer | undefined>>();

  constructor(database: Database<QueueOperations>, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** Reads the log. Called before the first request. */
  async load(): Promise<void> {
    const now = this.#clock.now();
    let after: number | null = 0;
    while (after !== null) {
      const { entries, next } = await this.#read(after, now);
      for (let i = 0; i < entries.length; i += 3) {
        const [fingerprint = 0, seq = 0, expiresAt = 0] = entries.subarray(i, i + 3);
        this.#index.add(fingerprint, seq, expiresAt);
      }
      after = next;
    }
  }

  #read(after: number, now: number) {
    return this.#database.read('recent.page', [after, now]);
  }

  /**
   * Appends a request that was not claimed, unless it repeats another one: then rejects with `RepeatedRequest`. `append` resolves
   * with the number of the durable batch.
   */
  async appendOnce(request: RecentRequest, append: () => Promise<number>): Promise<void> {
    for (;;) {
      const other = this.#inFlight.get(request.tag);
      if (other === undefined) break;
      const answer = await other;
      if (answer !== undefined) throw new RepeatedRequest(answer);
    }
    const { promise, resolve } = Promise.withResolvers<StoredAnswer | undefined>();
    this.#inFlight.set(request.tag, promise);
    let answer: StoredAnswer | undefined;
    try {
      answer = await this.#earlier(request.tag);
      if (answer !== undefined) throw new RepeatedRequest(answer);
      this.add(request, await append());
      answer = request.answer;
    } finally {
      this.#inFlight.delete(request.tag);
      resolve(answer);
    }
  }

  /** Adds a request whose batch is durable. */
  add({ tag, row }: RecentRequest, seq: number): void {
    const [, expiresAt] = row;
    this.#index.add(fingerprintOf(tag), seq, expiresAt);
  }

  isInFlight(tag: string): boolean {
    return this.#inFlight.has(tag);
  }

  /** The answer to the earlier request with the tag; undefined if there is none, or it has expired. */
  find(tag: string): Promise<StoredAnswer | undefined> {
    return this.#earlier(tag) ?? Promise.resolve(undefined);
  }

  /** Undefined without a look into the file if the index does not have the tag, as for almost every request. */
  #earlier(tag: string): Promise<StoredAnswer | undefined> | undefined {
    const seq = this.#index.find(fingerprintOf(tag));
    if (seq === undefined) return undefined;
    const kept = this.#database.read('recent.answer', [seq, tag, this.#clock.now()]);
    return kept.then((found) => (found === null ? undefined : answerOf(found)));
  }

  /** Removes some expired requests; resolves with whether there may be more. */
  expire(): Promise<boolean> {
    const now = this.#clock.now();
    this.#index.expire(now);
    return this.#database.write('recent.expire', [now], { lazy: true });
  }
}

function answerOf({ batch, status, contentType, body }: RecentAnswer): StoredAnswer {
  if (status === null || contentType === null || body === null) return wholeAnswer(batch);
  return { status, contentType, body: Buffer.from(body) };
}
