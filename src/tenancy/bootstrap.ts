import { capability } from '../component/capability.ts';
import type { ApiKey, Project } from './contract.ts';

/** What a store made for itself when it was opened for the first time. */
export type FirstProject = {
  readonly project: Project;
  readonly key: ApiKey;
  /** Known to this start alone. */
  readonly token: string;
};

export type Bootstrap = {
  /** Set on the start that made the store; undefined on every later one. */
  readonly first: FirstProject | undefined;
};

/** Offered by stores that start with a project and a key of their own. */
export const BOOTSTRAP = capability<Bootstrap>('bootstrap');
