import type { Key } from '../rows/observation-row.ts';
import type { Term } from '../rows/trace-terms.ts';
import type { Token, TokenBranch } from '../search/tokens.ts';

export type ParameterValue = string | number | bigint | Key;

/** The indexes of `traces` that statements name. */
export type TraceIndex =
  | ('traces_by_time' | 'traces_by_session' | 'traces_by_user' | 'traces_with_session')
  | ('traces_with_user' | 'failed_traces' | 'traces_without_terms');

/** How a store writes the parts of a statement in its SQL. */
export type Dialect = {
  /** The mark of a parameter by its number, which counts from 1. */
  placeholder(place: number): string;
  /** The table `traces`, named `t`; SQLite needs the name of the index. */
  traces(index: TraceIndex): string;
  /** Whether `t` is one of the traces whose keys, in the table `k`, fulfill a condition. */
  tracesOfKeys(where: string): string;
  /** The condition of the indexes by session and by user beside the one on their column; undefined if they have all traces. */
  readonly inGroupIndexes?: string;
  /** Joins `traces`, named `t`, to the places `p` of postings, row by row in their order. */
  readonly tracesOfPlaces: string;
  /** The end of a subquery that is executed for each row, and not joined. */
  readonly rowByRow: string;
  /** A parameter as a number of the type. */
  integer(parameter: string): string;
  real(parameter: string): string;
  /** A text as the columns keep it. */
  stored(text: string): string;
  /** A key as the column `key` keeps it, and the beginning of keys that are texts. */
  storedKey(key: Key): ParameterValue;
  storedKeyText(stored: string): ParameterValue;
  /** The function of the position of a text in another one, 0 if it is not there. */
  readonly position: 'instr' | 'strpos';
  /** A parameter for `like`. */
  needle(text: string, parameters: Parameters): string;
  /** Whether a text contains that of a needle, in any case of ASCII letters. */
  like(text: string, needle: string): string;
  /** As `like`, for a JSON text and a pattern. */
  jsonLike(json: string, pattern: string): string;
  /** Whether the message in the column `error` of `observations` contains a text. */
  messageLike(text: string, parameters: Parameters): string;
  /** The index of payload text; undefined if the store has none. */
  readonly texts?: TextDialect;
  /** Undefined if no trace waits. */
  readonly unposted?: UnpostedDialect;
};

/** The newest traces, which wait to be posted together: they have no postings, and are in no index by session or user. */
export type UnpostedDialect = {
  /** The table `traces`, named `t`, read by the numbers of traces. */
  readonly traces: string;
  /** Whether the trace with a number is one of them. */
  is(n: string): string;
  /** Whether the row `t` is in no index by session or user. */
  readonly notInGroupIndexes: string;
  /** Whether the row `t` has a term. Some rows without it may pass, as postings of a term do. */
  hasTerm(term: Term, parameters: Parameters): string;
};

/** The index of payload text (`src/store/search`) in the SQL of a store. */
export type TextDialect = {
  /** Whether the words of an observation of the trace `t` contain a parameter. */
  contain(phrase: string): string;
  /** Selects the column `trace` of the rows that have all tokens of a branch. */
  rowsOf(branches: readonly TokenBranch[], parameters: Parameters): string;
  /** Selects the rows that have a token. */
  rowsWith(token: Token, parameters: Parameters): string;
  /** Selects the column `trace` of changes that the index does not have. */
  readonly changes: string;
  /** Whether the index has what was stored when it began. */
  readonly isWhole: string;
  /** The function of the smallest of several numbers. */
  readonly smallest: 'min' | 'least';
};

/** A statement and its values. */
export type ListStatement = { readonly sql: string; readonly values: readonly ParameterValue[] };

/** Collects the values of a statement. */
export class Parameters {
  readonly values: ParameterValue[] = [];
  readonly dialect: Dialect;

  constructor(dialect: Dialect) {
    this.dialect = dialect;
  }

  value(value: ParameterValue): string {
    return this.dialect.placeholder(this.values.push(value));
  }

  /** A number far outside of every column is as good as the largest one. */
  integer(value: number): string {
    const { MIN_SAFE_INTEGER, MAX_SAFE_INTEGER } = Number;
    const bounded = Math.max(MIN_SAFE_INTEGER, Math.min(MAX_SAFE_INTEGER, value));
    return this.dialect.integer(this.value(bounded));
  }

  term(term: Term): string {
    return this.dialect.integer(this.value(term));
  }

  real(value: number): string {
    return this.dialect.real(this.value(value));
  }

  text(text: string): string {
    return this.value(this.dialect.stored(text));
  }

  /** The row value of integers. */
  integers(...values: readonly number[]): string {
    return `(${values.map((value) => this.integer(value)).join(', ')})`;
  }

  /** The pattern of texts that contain one. */
  anywhere(text: string): string {
    const escaped = this.dialect
      .stored(text)
      .replaceAll(/[\\%_]/g, (character) => `\\${character}`);
    return this.value(`%${escaped}%`);
  }
}
