import type { FoundScore, NewScore, Score, ScoreValue } from '../scores.ts';
import type { Key } from './observation-row.ts';

/** The cells of a score as both stores keep them, beside its project and trace. */
export type ScoreCells = {
  readonly id: string;
  readonly observation: string | null;
  readonly name: string;
  /** JSON. */
  readonly value: string;
  /** The value if it is a number. */
  readonly number: number | null;
  readonly comment: string | null;
  readonly source: string | null;
  readonly created_at: number;
  readonly updated_at: number;
};

export function cellsOfScore(score: NewScore): ScoreCells {
  const { id, observationId, name, value, comment, source, at } = score;
  return {
    ...{ id, observation: observationId, name, comment, source },
    value: JSON.stringify(value),
    number: typeof value === 'number' ? value : null,
    created_at: at,
    updated_at: at,
  };
}

export function storedScore({ at: _, ...score }: NewScore, createdAt: number): Score {
  return { ...score, createdAt };
}

/** In the order of their ids' first arrival. */
export function scoresInOrder(
  found: readonly Omit<ScoreCells, 'number' | 'updated_at'>[],
): Score[] {
  return found.map(scoreOf).sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
}

/** Undefined for the hash of a long id, which the id cannot be read from. */
export function foundScore(key: Key, cells: ScoreCells): FoundScore | undefined {
  return typeof key === 'string' ? { traceId: key, score: scoreOf(cells) } : undefined;
}

function scoreOf(cells: Omit<ScoreCells, 'number' | 'updated_at'>): Score {
  const { id, observation, name, value, comment, source, created_at: createdAt } = cells;
  return {
    ...{ id, observationId: observation, name, comment, source, createdAt },
    value: JSON.parse(value) as ScoreValue,
  };
}

/** A score as a list of traces reads it; `isOfTrace` is 0 for a score of an observation. */
type ListedScore = readonly [
  name: string,
  value: string,
  isOfTrace: 0 | 1,
  updatedAt: number,
  id: string,
];

/**
 * The value of each name: of a trace's scores with one name, those of the trace itself come before those of its observations, and the
 * newest one counts.
 */
export function scoresFromColumn(text: string | null): Readonly<Record<string, ScoreValue>> {
  if (text === null || text === '[]') return {};
  const listed = JSON.parse(text) as ListedScore[];
  listed.sort(
    ([, , ofTrace, at, id], [, , otherOfTrace, otherAt, otherId]) =>
      ofTrace - otherOfTrace || at - otherAt || (id < otherId ? -1 : 1),
  );
  return Object.fromEntries(listed.map(([name, value]) => [name, JSON.parse(value) as ScoreValue]));
}
