import { capability } from '../component/capability.ts';
import type { ApiKey, Project } from './contract.ts';

/** The project and key that a store creates when it is opened for the first time. */
export type FirstProject = {
  readonly project: Project;
  readonly key: ApiKey;
  /** The key's token. Only the process that created the store knows it, and `FirstTokens` until a user has seen it. */
  readonly token: string;
  /** An earlier start created the store, and ended before a user had seen the token. */
  readonly isRecovered: boolean;
};

export type Bootstrap = {
  /**
   * Set by the start that created the store, also after its stop, and by later starts until a user has seen the token; undefined on every
   * start after that.
   */
  readonly first: FirstProject | undefined;
};

/** Stores that create a first project and key offer it. */
export const BOOTSTRAP = capability<Bootstrap>('bootstrap');
