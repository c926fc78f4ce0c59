import { capability } from '../component/capability.ts';

/** The value of a score: a measure, a decision, or a label. */
export type ScoreValue = number | boolean | string;

/** An assessment of a trace or of one of its observations, by a person or a program. */
export type Score = {
  /** Unique in its trace: a score with the same id replaces the one before. */
  readonly id: string;
  /** Null if the score is about the trace. */
  readonly observationId: string | null;
  readonly name: string;
  readonly value: ScoreValue;
  readonly comment: string | null;
  /** The person or program that made it, such as `human` or `judge-v2`. */
  readonly source: string | null;
  /** When the first score with the id was stored, in milliseconds since the epoch. */
  readonly createdAt: number;
};

/** A score, and the trace that it is about. */
export type FoundScore = { readonly traceId: string; readonly score: Score };

/** A score before it is stored. `at` is the current time. */
export type NewScore = Omit<Score, 'createdAt'> & { readonly at: number };

/**
 * Scores belong to the id of a trace, whether or not the store has the trace yet. They are removed with their trace; those of a
 * trace that does not arrive are removed when they are as old as the retention.
 */
export type ScoreStore = {
  /**
   * Resolves when the score is durable; with `full`, and without effect, if the trace has `most` scores with other ids. Rejects
   * with `StoreError('unknown_project')` if the project was deleted.
   */
  put(projectId: string, traceId: string, score: NewScore, most: number): Promise<Score | 'full'>;
  /** In the order of their ids' first arrival. */
  list(projectId: string, traceId: string): Promise<readonly Score[]>;
  /** The score with the id, the newest one of several traces. Undefined also if its trace has an id of more than 64 characters. */
  find(projectId: string, id: string): Promise<FoundScore | undefined>;
  /** Removes the scores with the id from every trace. Resolves when that is durable, with whether there were any. */
  remove(projectId: string, id: string): Promise<boolean>;
};

/** Changes the texts of scores before they are stored. */
export type ScoreEditor = {
  /** The id of the processor: editors of several pipelines with one id edit alike. */
  readonly id: string;
  /** The same number of scores, in their order. */
  edit(scores: readonly NewScore[]): Promise<readonly NewScore[]>;
};

/** Processors that edit texts offer it: scores pass no pipeline. */
export const SCORE_EDITOR = capability<ScoreEditor>('score_editor');

/** The scores as every editor leaves them, one after the other. */
export async function editedScores(
  editors: readonly ScoreEditor[],
  scores: readonly NewScore[],
): Promise<readonly NewScore[]> {
  let edited = scores;
  for (const editor of editors) edited = await editor.edit(edited);
  return edited;
}
