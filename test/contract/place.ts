import type { Test } from 'tap';
import type { Store } from '../../src/store/store.ts';
import { beginTestProject } from '../helper/batches.ts';
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

/** Opens a store that only the test uses. */
export type OpenStore = SharesStore & ((t: Test) => Promise<OpenedStore>);

export type SharesStore = {
  /**
   * The store of the test file, with a project for the test alone. It is for tests of one project that neither move the
   * clock nor count beyond the project: opening a store takes longer than most of them.
   */
  shared(): Promise<Pick<OpenedStore, 'store'>>;
};

type OpenedStore = {
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
  metrics: RecordingMetrics;
  termTables(): Promise<TermTables>;
  forgetTerms(): Promise<void>;
};

/** Opens stores for the tests within `file`. */
export function opening(file: Test, place: (t: Test) => Promise<StorePlace>): OpenStore {
  let kept: Promise<OpenedStore> | undefined;
  const open = async (t: Test): Promise<OpenedStore> => {
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
  return Object.assign(open, {
    shared: () => {
      beginTestProject();
      kept ??= open(file);
      return kept;
    },
  });
}
