import { z } from 'zod';
import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../../src/model/observation.ts';
import { re2Pattern } from '../../src/schema/pattern-field.ts';

const text = z.string().min(1).max(1024);

/** One value or a list of values, as a list. */
function oneOrMore<T extends z.ZodType>(value: T) {
  return z
    .union([value, z.array(value).min(1).max(100)])
    .transform((given): z.output<T>[] => (Array.isArray(given) ? given : [given]));
}

const attribute = z.union([
  text,
  z.number().transform(String),
  z.boolean().transform(String),
  z.strictObject({ matches: re2Pattern() }),
  z.strictObject({ present: z.boolean() }),
]);

const condition = z
  .strictObject({
    name: oneOrMore(text).optional().describe('The name, or its beginning with `*` at the end.'),
    name_matches: re2Pattern()
      .optional()
      .describe('A pattern in RE2 syntax, anywhere in the name.'),
    kind: oneOrMore(z.enum(OBSERVATION_KINDS)).optional().describe('The kind.'),
    status: oneOrMore(z.enum(OBSERVATION_STATUSES)).optional().describe('The status.'),
    scope: oneOrMore(text)
      .optional()
      .describe('The name of the instrumentation scope, or its beginning with `*` at the end.'),
    attributes: z
      .record(z.string().min(1), attribute)
      .optional()
      .describe(
        'Attributes of a span or its resource, metadata of events and runs: a value, its beginning with `*` at the end, `{matches: PATTERN}` or `{present: true}`.',
      ),
  })
  .refine((fields) => Object.values(fields).some((field) => field !== undefined), {
    error: 'expected at least one field',
  });

const conditions = z.array(condition).max(100);

export const config = z
  .strictObject({
    preset: z
      .literal('llm_only')
      .optional()
      .describe(
        '`llm_only` drops observations of the kinds `span` and `event`, and those without a kind: the web requests and database calls between the observations of an LLM application.',
      ),
    include: conditions
      .default([])
      .describe('If there is an entry, observations that match no entry are dropped.'),
    exclude: conditions.default([]).describe('Observations that match an entry are dropped.'),
    mode: z
      .enum(['include', 'exclude'])
      .default('exclude')
      .describe('The list that `conditions` belong to.'),
    conditions: conditions
      .default([])
      .describe('Further entries of `include` or `exclude`, as `mode` says.'),
  })
  .refine(
    ({ preset, include, exclude, conditions }) =>
      preset !== undefined || include.length + exclude.length + conditions.length > 0,
    { error: 'nothing to filter: set preset, include, exclude or conditions' },
  );

export type FilterConfig = z.output<typeof config>;
export type Condition = z.output<typeof condition>;
