import type { Clock } from '../../src/component/component.ts';
import type { RawBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { Row } from '../../src/postgres/pool.ts';
import type { GroupLimits } from './grouping.ts';
import type { AnswerRow } from './queue-ledger.ts';

export type Append = { readonly batch: RawBatch; readonly answer: AnswerRow | undefined };

/**
 * The places a batch came to wait in; `deleted` where its project is, `refused` where its usage is, `late`
 * where its client has been told already that it failed.
 */
export type Appended = { readonly added: readonly Row[] } | 'deleted' | 'refused' | 'late';

/** Who comes while a group takes longer than this does not wait for it. Milliseconds. */
const SLOW_MS = 100;

/** What goes into one transaction, and how many of them are under way at the most. */
export function appendGroups(clock: Clock): GroupLimits {
  return { count: 256, weight: 8 * 1024 * 1024, slow: { clock, afterMs: SLOW_MS, most: 4 } };
}

/** Clients that were told meanwhile that they failed get what they were told. */
export async function withoutLate(
  calls: readonly Append[],
  write: (calls: readonly Append[]) => Promise<readonly Appended[]>,
): Promise<readonly Appended[]> {
  const waited = calls.filter(({ batch }) => batch.isGivenUp !== true);
  if (waited.length === calls.length) return write(calls);
  const written = waited.length === 0 ? [] : await write(waited);
  const results = new Map(waited.map((call, i) => [call, written[i] ?? 'late']));
  return calls.map((call) => results.get(call) ?? 'late');
}

/** The last moment, before the commit, at which nothing need be there. */
export function stopWhenLate(calls: readonly Append[]): void {
  if (calls.every(({ batch }) => batch.isGivenUp)) throw tooLate();
}

export function tooLate(): RetryableError {
  return new RetryableError('too_late', 'nobody waits for it any more');
}
