import { capability } from '../component/capability.ts';

/** Where a daemon keeps what is its own, such as the admin token. Made with mode 0700. */
export type DataDirectory = {
  /** Absolute. */
  readonly path: string;
};

/** Offered by extensions that own a data directory; a store on another machine has none to offer. */
export const DATA_DIRECTORY = capability<DataDirectory>('data_directory');
