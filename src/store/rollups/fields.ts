/** Fields whose values have rollups, with the numbers that stores keep: append to them, never renumber them. */
export const ROLLUP_FIELDS = {
  all: 0,
  name: 1,
  model: 2,
  user: 3,
  session: 4,
  status: 5,
  kind: 6,
  tool: 7,
  key: 8,
  environment: 9,
} as const;

export type RollupField = keyof typeof ROLLUP_FIELDS;

/** Fields that `group_by` takes. */
export const GROUP_FIELDS = Object.keys(ROLLUP_FIELDS).filter((field) => field !== 'all');

/** A value of a trace has the numbers of the whole trace; one of observations has those of the observations that have it. */
export const OBSERVATION_FIELDS = ['model', 'kind', 'tool'] as const satisfies RollupField[];

export function isRollupField(name: string): name is RollupField {
  return Object.hasOwn(ROLLUP_FIELDS, name);
}

/** The value of `all`. */
export const WHOLE = '';

/** Characters of a value; a longer one is counted as `OTHER`. */
export const MAX_ROLLUP_VALUE = 256;

/**
 * Values without a row of their own are counted in rows of the negative field: `OTHER` has those that no trace names (too
 * long, or too many in one trace), `OVERFLOW` those that came after the hour or day had `MAX_VALUES`.
 */
export const OTHER = '';
export const OVERFLOW = '+';

/** Values of a field in an hour, and in a day, with a row of their own. */
export const MAX_VALUES = 1000;

/** Values of a field of observations that one trace counts by name. */
export const MAX_VALUES_OF_TRACE = 24;
