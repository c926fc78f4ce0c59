import { capability } from '../component/capability.ts';

/** One database file that was salvaged. */
export type SalvagedFile = {
  readonly file: string;
  /** Where the former file was moved. */
  readonly kept: string;
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    /** Whether every row of the former file was readable. */
    readonly isComplete: boolean;
  }[];
  /** The file holds no project: the next start creates a first one, with a new key. */
  readonly startsAnew: boolean;
};

/**
 * For an extension that is created and not started: copies every readable row of its files into new ones, and keeps the
 * former files. Rejects if another process has the files open.
 */
export type Salvage = () => Promise<readonly SalvagedFile[]>;
export const SALVAGE = capability<Salvage>('salvage');
