import type { SealedBatch } from '../../../src/model/batch.ts';
import { itemsOf } from '../../../src/model/batch.ts';
import { RetryableError, tooLate } from '../../../src/model/errors.ts';
import type { Row } from '../connection/statement.ts';
import { ask } from '../connection/statement.ts';
import type { QueueClient } from '../database.ts';
import { Failed, grouped } from '../grouping.ts';
import type { AnswerRow } from './ledger.ts';
import type { QueueParts } from './parts.ts';
import { ENTER } from './statements.ts';

const GROUP = { count: 256, weight: 8 * 1024 * 1024 };
/** Who comes while a group takes longer than this does not wait for it. Milliseconds. */
const SLOW_MS = 100;
/** Groups under way at the same time, where they are slow. */
const MOST_AT_ONCE = 4;

export type Append = {
  readonly batch: SealedBatch;
  readonly answer: AnswerRow | undefined;
  /** Aborted once the client was answered 503. */
  readonly signal: AbortSignal | undefined;
};
/** The places a batch came to wait in; `deleted` where its project is, `refused` where its usage is. */
export type Appended = { readonly added: readonly Row[] } | 'deleted' | 'refused';
type Outcome = Appended | Failed;

/** Batches that come at the same time are kept, with their usage, and come to wait in one transaction. */
export function groupedAppends(
  parts: QueueParts,
  queue: string,
  branchIds: () => readonly number[],
): (call: Append) => Promise<Appended> {
  return grouped(
    { ...GROUP, slow: { clock: parts.clock, afterMs: SLOW_MS, most: MOST_AT_ONCE } },
    ({ batch }) => batch.body.byteLength,
    (calls) => withoutLate(calls, (waited) => appendGroup(parts, queue, branchIds, waited)),
  );
}

/** Clients that were told meanwhile that they failed get what they were told. */
async function withoutLate(
  calls: readonly Append[],
  append: (calls: readonly Append[]) => Promise<readonly Outcome[]>,
): Promise<readonly Outcome[]> {
  const waited = calls.filter(isWaitedFor);
  const appended =
    waited.length === 0
      ? []
      : await append(waited).catch((error: unknown) => {
          // Of these alone: who comes after them is not told so.
          if (waited.some(isWaitedFor)) throw error;
          return [];
        });
  const outcomes = new Map(waited.map((call, i) => [call, appended[i]]));
  return calls.map((call) => outcomes.get(call) ?? new Failed(tooLate()));
}

function isWaitedFor({ signal }: Append): boolean {
  return signal?.aborted !== true;
}

async function appendGroup(
  parts: QueueParts,
  queue: string,
  branchIds: () => readonly number[],
  calls: readonly Append[],
): Promise<readonly Outcome[]> {
  const append = (some: readonly Append[]): Promise<readonly Appended[]> =>
    parts.database.promptly((client) => write(parts, client, branchIds(), some));
  try {
    return await append(calls);
  } catch (error) {
    // Only what concerns everybody fails everybody: one that cannot be written goes alone.
    if (error instanceof RetryableError || calls.length === 1) throw error;
    parts.logger.warn({ error, queue }, 'a group could not be written: one by one');
    return singly(calls, append);
  }
}

async function singly(
  calls: readonly Append[],
  append: (some: readonly Append[]) => Promise<readonly Appended[]>,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const call of calls) {
    try {
      outcomes.push(...(await append([call])));
    } catch (failure) {
      outcomes.push(new Failed(failure));
      // The others are told the same: they have waited long enough.
      if (failure instanceof RetryableError) break;
    }
  }
  return calls.map((_, i) => outcomes[i] ?? outcomes.at(-1) ?? 'refused');
}

async function write(
  { database, ledger }: QueueParts,
  client: QueueClient,
  branchIds: readonly number[],
  calls: readonly Append[],
): Promise<readonly Appended[]> {
  const projects = [...new Set(calls.map(({ batch }) => batch.tenant.projectId))];
  const deleted = await ask(client, database.deletedAmong(projects));
  const kept = calls.filter(({ batch }) => !deleted.has(batch.tenant.projectId));
  const given = [...new Map(kept.map(({ batch }) => [batch.id, batch])).values()];
  const refused = given.length > 0 ? await database.keep(client, given) : new Set<string>();
  const batches = given.filter(({ id }) => !refused.has(id));
  const answers = kept.flatMap(({ answer, batch }) =>
    answer === undefined || refused.has(batch.id) ? [] : [answer],
  );
  await ledger.keep(client, answers);
  // The last moment at which nothing of it need be there.
  if (!calls.some(isWaitedFor)) throw tooLate();
  const added = Map.groupBy(await enter(client, batches, branchIds), (row) => row.batch_id);
  return calls.map(({ batch }) => {
    if (deleted.has(batch.tenant.projectId)) return 'deleted';
    if (refused.has(batch.id)) return 'refused';
    const rows = added.get(batch.id) ?? [];
    // Of the same batch twice in one group the first has come to wait.
    added.delete(batch.id);
    return { added: rows };
  });
}

/** The last of a transaction. */
async function enter(
  client: QueueClient,
  batches: readonly SealedBatch[],
  branchIds: readonly number[],
): Promise<readonly Row[]> {
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
  return entered?.rows ?? [];
}
