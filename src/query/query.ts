import type { Instant } from '../model/observation.ts';
import type { FieldName } from './fields.ts';

/** A parsed query. A trace matches if all terms hold. */
export type Query = { readonly terms: readonly QueryTerm[] };

export type QueryTerm = TextTerm | HasTerm | ValuesTerm | RangesTerm | TimesTerm;

type Common = {
  /** The term holds for the traces that do not match the rest. */
  readonly negated: boolean;
  /** Index of the term's first character, from 0. */
  readonly position: number;
};

/** The field of a term; `key` is the name behind the dot of `custom.KEY` and `score.NAME`, null otherwise. */
export type FieldTerm = Common & { readonly field: FieldName; readonly key: string | null };

/** A word or a phrase: holds if a searched text contains it, in any case of letters. */
type TextTerm = Common & { readonly type: 'text'; readonly text: string };

/** `has:field`. */
type HasTerm = FieldTerm & { readonly type: 'has' };

/** Equality with one of the values, or a prefix of the field's value. */
type ValuesTerm = FieldTerm & {
  readonly type: 'values';
  readonly values: readonly TextValue[];
};
export type TextValue = { readonly text: string; readonly isPrefix: boolean };

/** A number within one of the ranges: milliseconds for durations, USD for money. */
export type RangesTerm = FieldTerm & {
  readonly type: 'ranges';
  readonly ranges: readonly NumberRange[];
};
export type NumberRange = {
  /** Null without a bound. */
  readonly min: number | null;
  readonly max: number | null;
  /** Whether the bound itself is outside the range. */
  readonly isAboveMin: boolean;
  readonly isBelowMax: boolean;
};

/** An instant within one of the ranges. */
type TimesTerm = FieldTerm & {
  readonly type: 'times';
  readonly ranges: readonly TimeRange[];
};
export type TimeRange = {
  /** Inclusive; null without a bound. */
  readonly from: Instant | null;
  /** Exclusive; null without a bound. */
  readonly to: Instant | null;
  /** The range as it was written: a day is a range of 24 hours, and `now` is a moving instant. */
  readonly text: string;
};

/** A mistake in a query. The message counts characters from 1. A character of two UTF-16 units counts once. */
export class QueryError extends Error {
  override readonly name = 'QueryError';
  /** Number of characters before the one at fault. */
  readonly position: number;

  /** `place` in the message becomes `at character N`. */
  constructor(message: string, position: number) {
    super(message.replace('{place}', () => `at character ${position + 1}`));
    this.position = position;
  }
}

/** A mistake at an index of the text, in UTF-16 units. */
export class QueryMistake extends Error {
  readonly #index: number;

  constructor(message: string, index: number) {
    super(message);
    this.#index = index;
  }

  in(text: string): QueryError {
    return new QueryError(this.message, [...text.slice(0, this.#index)].length);
  }
}
