import type { ObservationBatch } from '../../../src/model/batch.ts';
import { PermanentError } from '../../../src/model/errors.ts';
import type { StoreDatabase } from '../database.ts';
import { Failed, grouped } from '../grouping.ts';
import { ROWS, writeBatch, writeTogether } from './write.ts';

/** While one group is with Postgres, the next is made. */
const LANES = 2;
const BATCHES = 16;

/** What became of one batch of a group. */
type Outcome = 'written' | Failed;

/**
 * Writes batches. Those that wait at the same time go in one transaction: its round trips cost more than the
 * rows of a small batch. What is refused there goes by itself, so that it takes no other with it.
 */
export function groupedWrites(database: StoreDatabase): (batch: ObservationBatch) => Promise<void> {
  const lanes = Array.from({ length: LANES }, () => ({
    underWay: 0,
    write: grouped<ObservationBatch, 'written'>(
      { count: BATCHES, weight: ROWS },
      ({ observations }) => observations.length,
      (batches) => writeGroup(database, batches),
    ),
  }));
  return async (batch) => {
    // In transactions of its own, one after another.
    if (batch.observations.length > ROWS) return writeBatch(database, batch);
    const lane = lanes.reduce((least, each) => (each.underWay < least.underWay ? each : least));
    lane.underWay++;
    try {
      await lane.write(batch);
    } finally {
      lane.underWay--;
    }
  };
}

async function writeGroup(
  database: StoreDatabase,
  batches: readonly ObservationBatch[],
): Promise<readonly Outcome[]> {
  const outcomes = new Map<ObservationBatch, Outcome>();
  const byProject = Map.groupBy(batches, ({ source }) => source.tenant.projectId);
  for (const group of byProject.values()) {
    const together = await outcomeOf(() => writeTogether(database, group));
    for (const batch of group) {
      outcomes.set(batch, together === 'again' ? await alone(database, batch) : together);
    }
  }
  return batches.map((batch) => outcomes.get(batch) ?? 'written');
}

/** `again`: nothing is written, and each may fare better by itself. */
async function outcomeOf(write: () => Promise<boolean>): Promise<Outcome | 'again'> {
  try {
    return (await write()) ? 'written' : 'again';
  } catch (failure) {
    return failure instanceof PermanentError ? 'again' : new Failed(failure);
  }
}

async function alone(database: StoreDatabase, batch: ObservationBatch): Promise<Outcome> {
  try {
    await writeBatch(database, batch);
    return 'written';
  } catch (failure) {
    return new Failed(failure);
  }
}
