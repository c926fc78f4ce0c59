import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { Store } from '../../src/store/store.ts';
import { nativeBatch } from '../helper/batches.ts';

export const T0 = Date.UTC(2026, 0, 15, 12);

/** The fields of an event that begins an observation. */
export const START: Partial<Observation> = {
  operation: 'start',
  status: 'running',
  endTime: null,
  ended: false,
};

/** A batch of observations; one raw batch each, later ones with later ids. */
export function write(store: Store, list: readonly Observation[], more: Partial<SealedBatch> = {}) {
  return store.traces.write(batchWith(list, more));
}

export function batchWith(
  list: readonly Observation[],
  more: Partial<SealedBatch> = {},
): ObservationBatch {
  const source = nativeBatch(list.length, more);
  const observations = list.map((observation, index) => ({ ...observation, index }));
  return { kind: 'observations', source, observations };
}
