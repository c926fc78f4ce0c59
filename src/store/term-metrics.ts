import type { Metrics } from '../component/component.ts';

export type TermMetrics = {
  /** A write left out so many terms. */
  leftOut(terms: number): void;
  close(): void;
};

/** `withoutTerms` counts the traces that have no postings yet, at every scrape. */
export function termMetrics(metrics: Metrics, withoutTerms: () => Promise<number>): TermMetrics {
  const unindexed = metrics.counter(
    'tracectl_unindexed_terms_total',
    'Terms that writes left out, because their trace has more than 64.',
  );
  const remove = metrics.gauge(
    'tracectl_store_traces_without_terms',
    'Traces of an earlier version whose terms are not indexed yet.',
    async () => [{ value: await withoutTerms() }],
  );
  return {
    leftOut(terms) {
      if (terms > 0) unindexed.add(terms);
    },
    close: remove,
  };
}
