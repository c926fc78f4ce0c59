import type { Test } from 'tap';
import type { Store } from '../../src/store/store.ts';
import type { FakeClock } from '../helper/clock.ts';
import type { RecordingMetrics } from '../helper/settings.ts';
import type { TermTables } from '../helper/term-tables.ts';

/** A store under test: opened, closed, broken off, and opened again. */
export type StorePlace = {
  readonly clock: FakeClock;
  readonly metrics: RecordingMetrics;
  open(): Promise<OpenStorePlace>;
  /** Reads the tables of postings as they are in the file or database. */
  termTables(): Promise<TermTables>;
  /** Removes the postings, as if an earlier version had written the traces. */
  forgetTerms(): Promise<void>;
};
type OpenStorePlace = {
  readonly store: Store;
  close(): Promise<void>;
  crash(): Promise<void>;
  /** Does all background work now. */
  finish(): Promise<void>;
};

/** Opens a store of the test. */
export type OpenStore = (t: Test) => Promise<{
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
  metrics: RecordingMetrics;
  termTables(): Promise<TermTables>;
  forgetTerms(): Promise<void>;
}>;

export function opening(place: (t: Test) => Promise<StorePlace>): OpenStore {
  return async (t) => {
    const at = await place(t);
    let opened = await at.open();
    t.teardown(() => opened.close());
    const reopen = async (how: 'close' | 'crash' = 'crash'): Promise<Store> => {
      await opened[how]();
      opened = await at.open();
      return opened.store;
    };
    const finish = (): Promise<void> => opened.finish();
    const { clock, metrics, termTables, forgetTerms } = at;
    return { clock, metrics, termTables, forgetTerms, store: opened.store, finish, reopen };
  };
}
