import type { GroupStepLook } from '../../src/store/plan/groups.ts';
import type { Look } from '../../src/store/plan/step.ts';
import { aQuery } from '../helper/query.ts';

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
  'has:error',
  'has:session -has:user',
  'has:user',
  'status:error start:2026-01-15',
  'state:error',
  'state:interrupted -has:error',
  'error:E kind:llm model:m* provider:p tool:t prompt:x span:s',
  'tag:t custom.k:v latency:>1s cost:>1 tokens:>1 id:a id:b* source:otlp key:k',
  'text "more text" -text',
];
