import type { ObservationBatch } from '../../../src/model/batch.ts';
import { PermanentError } from '../../../src/model/errors.ts';
import type { GroupBound } from '../grouping.ts';
import { Failed, grouped } from '../grouping.ts';
import type { WriteParts } from './write.ts';
import { MAX_ROWS, writeBatch, writeTogether } from './write.ts';

/** While Postgres works on one group, this process prepares the next. */
const LANES = 2;
/** Batches of one group. */
const MAX_BATCHES = 64;
/** Batches of one event-loop turn share a lane up to so many rows: a transaction costs more than the rows. */
const TURN_ROWS = 100;
/** The bound of a group in timeouts of other groups: its projects take a transaction each. */
const TIMEOUTS = 4;

type Outcome = 'written' | Failed;

/**
 * Writes batches. Those that wait at the same time share a transaction, because its round trips cost more than the
 * rows of a small batch. If a group fails because of its data, its batches are written one by one, so that a bad one
 * fails alone.
 */
export function groupedWrites(
  to: WriteParts,
  timeout: Omit<GroupBound, 'name'>,
): (batch: ObservationBatch) => Promise<void> {
  const bound = { ...timeout, name: 'write of observations', ms: TIMEOUTS * timeout.ms };
  const lanes = Array.from({ length: LANES }, () => ({
    inFlight: 0,
    write: grouped<ObservationBatch, 'written'>(
      { count: MAX_BATCHES, weight: MAX_ROWS, bound },
      ({ observations }) => observations.length,
      (batches, abandoned) => writeGroup(to, batches, abandoned),
    ),
  }));
  let turn: { readonly lane: (typeof lanes)[number]; rows: number } | undefined;
  const leastBusy = () =>
    lanes.reduce((least, each) => (each.inFlight < least.inFlight ? each : least));

  function laneFor(rows: number) {
    if (turn === undefined) setImmediate(() => (turn = undefined));
    if (turn === undefined || turn.rows + rows > TURN_ROWS) turn = { lane: leastBusy(), rows: 0 };
    turn.rows += rows;
    return turn.lane;
  }

  return async (batch) => {
    const rows = batch.observations.length;
    // Takes several transactions.
    if (rows > MAX_ROWS) return writeBatch(to, batch);
    const lane = laneFor(rows);
    lane.inFlight++;
    try {
      await lane.write(batch);
    } finally {
      lane.inFlight--;
    }
  };
}

async function writeGroup(
  to: WriteParts,
  batches: readonly ObservationBatch[],
  abandoned: AbortSignal,
): Promise<readonly Outcome[]> {
  const outcomes = new Map<ObservationBatch, Outcome>();
  const byProject = Map.groupBy(batches, ({ source }) => source.tenant.projectId);
  for (const group of byProject.values()) {
    // The deliveries of the remaining batches are retried already.
    abandoned.throwIfAborted();
    const together = await outcomeOf(() => writeTogether(to, group));
    for (const batch of group) {
      outcomes.set(batch, together === 'singly' ? await writeSingly(to, batch) : together);
    }
  }
  return batches.map((batch) => outcomes.get(batch) ?? 'written');
}

/** `singly`: nothing is written, and a single batch may succeed. */
async function outcomeOf(write: () => Promise<boolean>): Promise<Outcome | 'singly'> {
  try {
    return (await write()) ? 'written' : 'singly';
  } catch (failure) {
    return failure instanceof PermanentError ? 'singly' : new Failed(failure);
  }
}

async function writeSingly(to: WriteParts, batch: ObservationBatch): Promise<Outcome> {
  try {
    await writeBatch(to, batch);
    return 'written';
  } catch (failure) {
    return new Failed(failure);
  }
}
