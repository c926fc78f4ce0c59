import type { Dialect, ListStatement } from '../../src/store/plan/dialect.ts';
import type { GroupStepLook } from '../../src/store/plan/groups.ts';
import type { WayCounts } from '../../src/store/plan/plan.ts';
import { rankPlan } from '../../src/store/plan/ranking.ts';
import type { Look } from '../../src/store/plan/step.ts';
import { stepPlan } from '../../src/store/plan/step.ts';
import { RANK_FIELDS } from '../../src/store/ranking.ts';
import { aQuery } from '../helper/query.ts';

/** Every statement of listings of the project `p`, by every way to the traces. */
export function everyStatement(dialect: Dialect, columns: string): ListStatement[] {
  return everyLook().flatMap((look) => {
    const plan = stepPlan(dialect, { project: 'p', since: 0 }, look);
    const probe = plan.probe === undefined ? [] : [plan.probe];
    const steps = COUNTS.flatMap((counts) => {
      const { end, list } = plan.by(counts);
      return [end, list(columns, null), list(columns, { ms: 1, ns: 0, n: 1 })];
    });
    return [...probe, ...steps];
  });
}

/** Every statement of sorted lists, whose traces of one step are sorted. */
export function everyRankStatement(dialect: Dialect): ListStatement[] {
  const place = { ms: 5, ns: 0, n: 7 };
  return everyLook().flatMap(({ query, after }) =>
    RANK_FIELDS.flatMap((by) => {
      const bounds = { after, until: after && { ...place, ms: 1 }, behind: null, before: null };
      const ranked = after === null ? bounds : { ...bounds, behind: RANKED, before: RANKED };
      const look = { ...ranked, by, query, limit: 9, size: 4, staleBefore: 0 };
      const plan = rankPlan(dialect, { project: 'p', since: 0 }, { ...look, isAscending: true });
      return COUNTS.flatMap((counts) => {
        const { end, list } = plan.by(counts);
        return [end, list(null), list(place)];
      });
    }),
  );
}

const RANKED = { value: 1, ms: 1, ns: 1, n: 1 };
const counted = (overflow: number, ...traces: number[]) =>
  traces.map((count) => ({ traces: count, overflow }));
/** Before postings are complete; rare and frequent terms; with overflow terms. */
const COUNTS: readonly WayCounts[] = [
  { isIndexed: false, ways: [] },
  { isIndexed: true, ways: counted(0, 1, 1, 1, 1, 1, 1, 1, 1, 1) },
  { isIndexed: true, ways: counted(0, 500, 600, 700, 800, 800, 800, 800, 800, 900) },
  { isIndexed: true, ways: counted(5, 500, 600, 700, 800, 800, 800, 800, 800, 900) },
];

/** Listings whose statements use every way to the traces. */
export function everyLook(): Look[] {
  const place = { ms: 5, ns: 0, n: 7 };
  return QUERIES.flatMap((text) =>
    [null, place].flatMap((after) =>
      [false, true].map((isAscending) => ({
        ...{ query: aQuery(text, 0), limit: 10, after, isAscending, size: 4, staleBefore: 0 },
      })),
    ),
  );
}

/** Steps over sessions and users whose statements use every way to the traces. */
export function everyGroupLook(): GroupStepLook[] {
  const place = { ms: 5, ns: 0, n: 7 };
  return ['', 'start:2026-01-15', 'has:error model:m', 'session:s', 'user:u status:ok'].flatMap(
    (text) =>
      [null, place].flatMap((after) =>
        (['session', 'user'] as const).map((by) => ({
          ...{ by, query: aQuery(text, 0), after, size: 4, staleBefore: 0 },
        })),
      ),
  );
}

const QUERIES = [
  '',
  'start:2026-01-15',
  'start:2026-01-15,2026-01-17',
  'name:a status:ok',
  'session:s',
  'session:s*',
  'session:s,t',
  'user:u',
  'session:s user:u start:2026-01-15',
  'id:a',
  'id:a,b start:2026-01-15 session:s',
  'has:error',
  'has:session -has:user',
  'has:user',
  'status:error start:2026-01-15',
  'state:error',
  'state:interrupted -has:error',
  'error:E kind:llm model:m* provider:p tool:t prompt:x span:s',
  'model:a,b user:u',
  'tag:t custom.k:v latency:>1s cost:>1 tokens:>1 id:a id:b* source:otlp key:k',
  'text "more text" -text',
  'needle',
  'score.a:>1 score.b:good,x* has:score has:score.c -score.d:true',
];
