import type { SteadyTime } from '../../component/steady-time.ts';
import type { SealedBatch } from '../../model/batch.ts';
import { RepeatedRequest } from '../../model/errors.ts';
import type { KeyedAnswer, StoredAnswer } from '../../model/request-context.ts';
import { implicitTag, wholeAnswer, wholeBatchOf } from '../../model/request-context.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import { fingerprintOf, RecentIndex } from './recent-index.ts';
import type { ItemizedAnswer } from './recent-log.ts';
import type { RecentAnswer, RecentPage } from './recent-operations.ts';

/** A request with an implicit key whose batch is appended. */
export type RecentRequest = {
  readonly tag: string;
  readonly project: string;
  readonly fingerprint: number;
  readonly expiresAt: number;
  readonly answer: StoredAnswer;
  /** Set while its batch is being appended. */
  appended: Promise<number> | undefined;
};

/** A request with an implicit key. `keptFor` is the time for which it is remembered. */
export function recentRequest(
  { tenant: { projectId } }: SealedBatch,
  answer: KeyedAnswer,
  keptFor: number,
  now: number,
): RecentRequest {
  const tag = implicitTag(answer.key);
  const fingerprint = fingerprintOf(tag, projectId);
  const expiresAt = now + keptFor;
  return { tag, project: projectId, fingerprint, expiresAt, answer, appended: undefined };
}

/** The answer to keep for a request, null if all items were accepted. */
export function itemizedAnswer({ answer }: RecentRequest, batchId: string): ItemizedAnswer | null {
  if (wholeBatchOf(answer) === batchId) return null;
  return [answer.status, answer.contentType, new Uint8Array(answer.body)];
}

/**
 * Recognizes requests without an `Idempotency-Key` that repeat an earlier one of the same file.
 *
 *   append ─▶ the same request in flight? ──▶ waits for its commit
 *          ─▶ in the index? ──▶ the log has the answer: `RepeatedRequest`
 *          ─▶ appended and logged, then added to the index
 *
 * The index has durable requests only: it is read from the log at a start, and gets a request after its commit.
 */
export class RecentRequests {
  readonly #database: Database<QueueOperations>;
  readonly #time: SteadyTime;
  readonly #index = new RecentIndex();
  /** By fingerprint; of two requests with the same one, the later one. */
  readonly #inFlight = new Map<number, RecentRequest>();

  constructor(database: Database<QueueOperations>, time: SteadyTime) {
    this.#database = database;
    this.#time = time;
  }

  /** Reads the log. Called before the first request. */
  async load(): Promise<void> {
    const now = this.#time.now();
    await this.#load('recent.page', now);
    await this.#load('recent.groupPage', now);
  }

  async #load(operation: 'recent.page' | 'recent.groupPage', now: number): Promise<void> {
    let after: number | null = 0;
    while (after !== null) {
      const { entries, next }: RecentPage = await this.#database.read(operation, [after, now]);
      for (let i = 0; i < entries.length; i += 3) {
        const [fingerprint = 0, seq = 0, expiresAt = 0] = entries.subarray(i, i + 3);
        this.#index.add(fingerprint, seq, expiresAt);
      }
      after = next;
    }
  }

  /**
   * Appends a request that was not claimed, unless it repeats another one: then rejects with `RepeatedRequest`. `append` resolves
   * with the number of the durable batch.
   */
  async appendOnce(request: RecentRequest, append: () => Promise<number>): Promise<void> {
    const { tag, project, fingerprint } = request;
    for (;;) {
      const other = this.#findInFlight(tag, project, fingerprint);
      if (other === undefined) break;
      const answer = await answerTo(other);
      if (answer !== undefined) throw new RepeatedRequest(answer);
    }
    const earlier = this.#earlier(tag, project, fingerprint);
    request.appended = earlier === undefined ? append() : appendUnless(earlier, append);
    this.#inFlight.set(fingerprint, request);
    try {
      this.add(request, await request.appended);
    } finally {
      this.#inFlight.delete(fingerprint);
    }
  }

  #findInFlight(tag: string, project: string, fingerprint: number): RecentRequest | undefined {
    const other = this.#inFlight.get(fingerprint);
    return other?.tag === tag && other.project === project ? other : undefined;
  }

  /** Adds a request whose batch is durable. */
  add({ fingerprint, expiresAt }: RecentRequest, seq: number): void {
    this.#index.add(fingerprint, seq, expiresAt);
  }

  isInFlight(tag: string, project: string): boolean {
    return this.#findInFlight(tag, project, fingerprintOf(tag, project)) !== undefined;
  }

  /** The answer to the earlier request with the tag; undefined if there is none, or it has expired. */
  async find(tag: string, project: string): Promise<StoredAnswer | undefined> {
    return this.#earlier(tag, project, fingerprintOf(tag, project));
  }

  /** Undefined without a look into the file if the index does not have the tag, as for almost every request. */
  #earlier(
    tag: string,
    project: string,
    fingerprint: number,
  ): Promise<StoredAnswer | undefined> | undefined {
    const seq = this.#index.find(fingerprint);
    if (seq === undefined) return undefined;
    const now = this.#time.now();
    const kept = this.#database.read('recent.answer', [seq, tag, project, now]);
    return kept.then((found) => (found === null ? undefined : answerOf(found)));
  }

  /** Removes some expired requests; resolves with whether there may be more. */
  expire(): Promise<boolean> {
    const now = this.#time.now();
    this.#index.expire(now);
    return this.#database.write('recent.expire', [now], { lazy: true });
  }
}

/** The answer to a request in flight; undefined if it failed. */
async function answerTo({ answer, appended }: RecentRequest): Promise<StoredAnswer | undefined> {
  try {
    await appended;
    return answer;
  } catch (error) {
    return error instanceof RepeatedRequest ? error.answer : undefined;
  }
}

async function appendUnless(
  earlier: Promise<StoredAnswer | undefined>,
  append: () => Promise<number>,
): Promise<number> {
  const answer = await earlier;
  if (answer !== undefined) throw new RepeatedRequest(answer);
  return append();
}

function answerOf({ batch, status, contentType, body }: RecentAnswer): StoredAnswer {
  if (status === null || contentType === null || body === null) return wholeAnswer(batch);
  return { status, contentType, body: Buffer.from(body) };
}
