import type { Store } from './store.ts';

/** An offer exists before its extension has started; it may be used from then on. */
export function lateStore(store: () => Store): Store {
  return {
    get projects() {
      return store().projects;
    },
    get keys() {
      return store().keys;
    },
    get traces() {
      return store().traces;
    },
    get organization() {
      return store().organization;
    },
    get usage() {
      return store().usage;
    },
    get counters() {
      return store().counters;
    },
    get rejections() {
      return store().rejections;
    },
    get audit() {
      return store().audit;
    },
    openQueue: (options) => store().openQueue(options),
  };
}
