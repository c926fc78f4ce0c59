import { capability } from '../component/capability.ts';

/** The directory of a daemon's own files, such as the admin token; its mode is 0700. */
export type DataDirectory = {
  /** Absolute. */
  readonly path: string;
};

/** Offered by extensions that own a data directory; a store on another machine has none. */
export const DATA_DIRECTORY = capability<DataDirectory>('data_directory');
