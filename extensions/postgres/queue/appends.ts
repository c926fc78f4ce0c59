import type { Clock, Logger } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { itemsOf } from '../../../src/model/batch.ts';
import {
  Refusal,
  RepeatedRequest,
  RetryableError,
  sameInProgress,
  tooLate,
} from '../../../src/model/errors.ts';
import type { StoredAnswer } from '../../../src/model/request-context.ts';
import { isConflict } from '../connection/errors.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import { repeated } from '../connection/repeated.ts';
import { ask, rowsIn } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import type { GroupBound } from '../grouping.ts';
import { Failed, grouped } from '../grouping.ts';
import type { AnswerToKeep, PostgresIdempotency } from './idempotency.ts';
import { ENTER } from './statements.ts';

/**
 * How an accepted batch becomes durable, from the queue's `append` to COMMIT:
 *
 *   PostgresQueue.append (queue.ts)     bounds the bytes of the queue, renders the answer for the Idempotency-Key
 *     grouped (grouping.ts)             collects appends of one event-loop turn, and those behind a group in flight
 *       appendGroup                     leaves out appends whose client was answered; isolates a batch that fails
 *         transactionWithDeadline       one transaction, within the time that a client waits
 *           storeGroup                  accept lock ─▶ batches, usage ─▶ answers ─▶ queue entries with COMMIT
 */

const GROUP = { count: 256, weight: 8 * 1024 * 1024 };
/** Appends that arrive while a group takes longer than this do not wait for it. Milliseconds. */
const SLOW_MS = 100;
/** Groups in flight at the same time, if they are slow. */
const MAX_IN_FLIGHT = 4;
const ATTEMPTS = 3;

export type Append = {
  readonly batch: SealedBatch;
  readonly answer: AnswerToKeep | undefined;
  /** Aborted once the client was answered 503. */
  readonly signal: AbortSignal | undefined;
};

/** A new entry of a queue. */
export type EnteredRow = {
  readonly branch: number;
  readonly batch_id: string;
  readonly seq: number;
};

/**
 * The new entries of a batch; `deleted` if its project is, `refused` if its usage was; the earlier answer if its request
 * repeats one, so that nothing was stored; `in_progress` if that request has no answer yet.
 */
export type Appended =
  | { readonly entered: readonly EnteredRow[] }
  | { readonly earlier: StoredAnswer }
  | 'deleted'
  | 'refused'
  | 'in_progress';
type Outcome = Appended | Failed;

/** The new entries. Throws the error for a batch that was not stored. */
export function enteredOf(appended: Appended): readonly EnteredRow[] {
  if (appended === 'deleted') throw new Refusal('unauthorized', 'The project was deleted.');
  if (appended === 'refused') {
    throw new RetryableError(
      'quota_counters',
      'The quota counters were lost before the batch was stored. Try again.',
    );
  }
  if (appended === 'in_progress') throw sameInProgress();
  if ('earlier' in appended) throw new RepeatedRequest(appended.earlier);
  return appended.entered;
}

export type AppendParts = {
  readonly queue: string;
  readonly database: StoreDatabase;
  readonly idempotency: PostgresIdempotency;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bound: GroupBound;
  /** Ids of the branches that a batch enters; a reload of the configuration changes them. */
  readonly branchIds: () => readonly number[];
};

/** Batches that are appended at the same time share a transaction. */
export function groupedAppends(parts: AppendParts): (call: Append) => Promise<Appended> {
  return grouped(
    {
      ...GROUP,
      slow: { clock: parts.clock, afterMs: SLOW_MS, most: MAX_IN_FLIGHT },
      bound: parts.bound,
    },
    ({ batch }) => batch.body.byteLength,
    (calls) => appendGroup(parts, calls),
  );
}

/** Fails the appends whose client was already answered 503, so that the client's view stays true. */
async function appendGroup(
  parts: AppendParts,
  calls: readonly Append[],
): Promise<readonly Outcome[]> {
  const waited = calls.filter(isWaitedFor);
  const outcomes = waited.length === 0 ? [] : await appendWaited(parts, waited);
  const byCall = new Map(waited.map((call, i) => [call, outcomes[i]]));
  return calls.map((call) => byCall.get(call) ?? new Failed(tooLate()));
}

function isWaitedFor({ signal }: Append): boolean {
  return signal?.aborted !== true;
}

/** Resolves with an empty list if every client was answered before the transaction could commit. */
async function appendWaited(
  parts: AppendParts,
  calls: readonly Append[],
): Promise<readonly Outcome[]> {
  try {
    return await inTransaction(parts, calls);
  } catch (error) {
    // A rejection would also fail the appends that wait behind this group; their clients still wait.
    if (!calls.some(isWaitedFor)) return [];
    if (error instanceof RetryableError || calls.length === 1) throw error;
    parts.logger.warn(
      { err: error, queue: parts.queue },
      'Group of appends failed; appending one by one',
    );
    return oneByOne(parts, calls);
  }
}

async function oneByOne(parts: AppendParts, calls: readonly Append[]): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const call of calls) {
    try {
      outcomes.push(...(await inTransaction(parts, [call])));
    } catch (failure) {
      outcomes.push(new Failed(failure));
      // Postgres is away: the remaining calls share the failure instead of waiting for one of their own.
      if (failure instanceof RetryableError) break;
    }
  }
  return calls.map((_, i) => outcomes[i] ?? outcomes.at(-1) ?? 'refused');
}

/** A transaction that was rolled back because of another one is repeated while a client waits for it. */
async function inTransaction(
  parts: AppendParts,
  calls: readonly Append[],
): Promise<readonly Appended[]> {
  const mayPass = (error: unknown): boolean => isConflict(error) && calls.some(isWaitedFor);
  return repeated(ATTEMPTS, mayPass, () =>
    parts.database.transactionWithDeadline((client) => storeGroup(parts, client, calls)),
  );
}

async function storeGroup(
  { database, idempotency, branchIds }: AppendParts,
  client: PostgresTransaction,
  calls: readonly Append[],
): Promise<readonly Appended[]> {
  const projects = [...new Set(calls.map(({ batch }) => batch.tenant.projectId))];
  const deleted = await ask(client, database.lockForAccept(projects));
  const stored = calls.filter(({ batch }) => !deleted.has(batch.tenant.projectId));
  const unclaimed = stored.flatMap(({ answer }) => (isUnclaimed(answer) ? [answer] : []));
  const earlier = await idempotency.keepNew(client, unclaimed);
  const repeats = (answer: AnswerToKeep | undefined) => answer && earlier.get(answer);
  const kept = stored.filter(({ answer }) => repeats(answer) === undefined);
  const given = [...new Map(kept.map(({ batch }) => [batch.id, batch])).values()];
  const refused =
    given.length > 0 ? await database.acceptBatches(client, given) : new Set<string>();
  const batches = given.filter(({ id }) => !refused.has(id));
  const isRefused = ({ batch }: Append) => refused.has(batch.id);
  const claimed = kept.filter((call) => !isRefused(call) && !isUnclaimed(call.answer));
  await idempotency.keep(
    client,
    claimed.flatMap(({ answer }) => answer ?? []),
  );
  const lost = kept
    .filter(isRefused)
    .flatMap(({ answer }) => (isUnclaimed(answer) ? [answer] : []));
  await idempotency.forget(client, lost);
  const voided = new Set(lost.map(({ hash }) => hash.toString('latin1')));
  // The last moment at which the transaction can still be rolled back.
  if (!calls.some(isWaitedFor)) throw tooLate();
  const all = await enterAndCommit(client, batches, branchIds());
  const entered = Map.groupBy(all, ({ batch_id }) => batch_id);
  return calls.map(({ batch, answer }) => {
    if (deleted.has(batch.tenant.projectId)) return 'deleted';
    const first = repeats(answer);
    if (first === 'in_progress') return first;
    if (answer !== undefined && first !== undefined) {
      return voided.has(answer.hash.toString('latin1')) ? 'refused' : { earlier: first };
    }
    if (refused.has(batch.id)) return 'refused';
    const own = entered.get(batch.id) ?? [];
    // If a group holds the same batch twice, the first call has entered it.
    entered.delete(batch.id);
    return { entered: own };
  });
}

function isUnclaimed(answer: AnswerToKeep | undefined): answer is AnswerToKeep {
  return answer?.isUnclaimed === true;
}

async function enterAndCommit(
  client: PostgresTransaction,
  batches: readonly SealedBatch[],
  branchIds: readonly number[],
): Promise<readonly EnteredRow[]> {
  if (batches.length === 0) return [];
  const values = [
    batches.map(({ id }) => id),
    batches.map(({ tenant }) => tenant.projectId),
    batches.map(({ receivedAt }) => receivedAt),
    batches.map(itemsOf),
    batches.map(({ body }) => body.byteLength),
    branchIds,
  ];
  const [entered] = await client.commit([[ENTER, values]]);
  return entered === undefined ? [] : rowsIn<EnteredRow>(entered);
}
