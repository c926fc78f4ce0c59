/** Traces that writes change, as ids. A listener gets the ids of a write after its commit. */
export type TraceChanges = {
  /** Calls the listener for traces of a project. Returns the function that ends it. */
  watch(projectId: string, listener: ChangeListener): () => void;
};

/** In the place of the id of a changed trace that is not known. No trace has it. */
export const UNNAMED = '';

export type ChangeListener = (traceIds: readonly string[]) => void;

/** The changes of this process. */
export class ChangeFeed implements TraceChanges {
  readonly #listeners = new Map<string, Set<ChangeListener>>();

  /** Whether there is a listener: writes name their traces only then. */
  isWatched(projectId: string): boolean {
    return this.#listeners.has(projectId);
  }

  watch(projectId: string, listener: ChangeListener): () => void {
    const listeners = this.#listeners.get(projectId) ?? new Set();
    this.#listeners.set(projectId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(projectId) === listeners) {
        this.#listeners.delete(projectId);
      }
    };
  }

  publish(projectId: string, traceIds: readonly string[]): void {
    if (traceIds.length === 0) return;
    for (const listener of this.#listeners.get(projectId) ?? []) listener(traceIds);
  }
}
