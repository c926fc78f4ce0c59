/**
 * The entries of a store's queues that lead into the store, so that a client can wait for what it sent. A mark names an entry;
 * later entries have greater ones.
 */
export type Backlog = {
  /**
   * The mark of the newest entry of the project that waits, among those up to a mark; null if none waits. Looks at
   * `LOOKED_AT` entries: beyond them it answers the mark of the last one, whatever its project.
   */
  newest(projectId: string, upTo?: BacklogMark): Promise<BacklogMark | null>;
};

type BacklogMark = string | number;

/** Entries of a branch that one look reads at most. */
export const LOOKED_AT = 2000;

/** The branch of gateways, whose entries workers move to the branches of their exporters. */
const SHARED_BRANCH = 'jobs';

/** Whether the entries of a branch are for a store: by the type of the exporter in its name. */
export function leadsTo(type: 'sqlite' | 'postgres', branch: string): boolean {
  return branch === SHARED_BRANCH || new RegExp(`/${type}(?:/[^/]+)?$`).test(branch);
}
