import { capability } from '../component/capability.ts';
import type { ApiKey, Project } from './contract.ts';

/** The project and key that a store creates when it is opened for the first time. */
export type FirstProject = {
  readonly project: Project;
  readonly key: ApiKey;
  /** The key's token. Only the process that created the store knows it. */
  readonly token: string;
};

export type Bootstrap = {
  /** Set by the start that created the store, also after its stop; undefined on every later start. */
  readonly first: FirstProject | undefined;
};

/** Stores that create a first project and key offer it. */
export const BOOTSTRAP = capability<Bootstrap>('bootstrap');
