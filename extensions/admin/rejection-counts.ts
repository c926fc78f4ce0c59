import type { UsageRow } from '../../src/tenancy/contract.ts';
import type { Operation } from './operation.ts';
import { operation } from './operation.ts';
import { projectOf } from './operations.ts';
import { QUERIES, SCHEMAS } from './schemas.ts';
import { usageRangeOf } from './usage.ts';

/** The rejections of a project over time, by code. They outlive the entries of the log. */
export const REJECTION_COUNTS: Operation = operation({
  id: 'countRejections',
  method: 'GET',
  path: '/api/v1/projects/:id/rejections/counts',
  tag: 'usage',
  summary: 'Count rejected items and refused requests by code, and by hour or day',
  query: QUERIES.periods,
  status: 200,
  answer: SCHEMAS.rejectionCounts,
  codes: ['unknown_project'],
  async run({ id, query }, { store, clock }) {
    await projectOf(store, id);
    const range = usageRangeOf(query, clock);
    const rows = await store.usage.history({ ...range, projectId: id });
    return {
      body: {
        from: new Date(range.from).toISOString(),
        to: new Date(range.to).toISOString(),
        by: range.by,
        codes: countsByCode(rows),
      },
    };
  },
});

type Period = { readonly period: string; count: number };

/** The most frequent code first; each has only the periods in which it occurred, over all keys. */
function countsByCode(rows: readonly UsageRow[]): object[] {
  const codes = new Map<string, Map<string, Period>>();
  for (const { period, rejected } of rows) {
    for (const [code, count] of Object.entries(rejected)) {
      const periods = codes.get(code) ?? new Map<string, Period>();
      codes.set(code, periods);
      const known = periods.get(period);
      if (known === undefined) periods.set(period, { period, count });
      else known.count += count;
    }
  }
  return [...codes]
    .map(([code, periods]) => {
      const sorted = [...periods.values()].sort((a, b) => (a.period < b.period ? -1 : 1));
      return { code, count: sorted.reduce((sum, { count }) => sum + count, 0), periods: sorted };
    })
    .sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1));
}
