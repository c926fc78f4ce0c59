import {
  OBSERVATION_KINDS,
  OBSERVATION_SOURCES,
  OBSERVATION_STATUSES,
  TRACE_STATES,
} from '../model/observation.ts';

/**
 * The form of a field's values. `text` has equality and prefixes, `choice` a fixed set of values, `score` numbers or
 * text; the others have equality, comparisons and ranges: `duration` in milliseconds, `money` in USD.
 */
type FieldType = 'text' | 'choice' | 'count' | 'money' | 'duration' | 'time' | 'score';

export type QueryField = {
  readonly type: FieldType;
  /** A term on a field of observations holds if any observation of the trace matches. */
  readonly of: 'trace' | 'observation';
  readonly meaning: string;
  /** The values of a `choice`. */
  readonly choices?: readonly string[];
  /** The field has a name behind a dot: `custom.KEY`. */
  readonly isKeyed?: true;
};

const TABLE = {
  id: { type: 'text', of: 'trace', meaning: 'trace id' },
  name: { type: 'text', of: 'trace', meaning: 'name of the root observation' },
  status: {
    type: 'choice',
    of: 'trace',
    meaning: 'status of the root observation',
    choices: OBSERVATION_STATUSES,
  },
  state: {
    type: 'choice',
    of: 'trace',
    meaning: 'running, finished, error or interrupted',
    choices: TRACE_STATES,
  },
  start: { type: 'time', of: 'trace', meaning: 'start of the trace' },
  latency: { type: 'duration', of: 'trace', meaning: 'time from start to end' },
  ttft: { type: 'duration', of: 'trace', meaning: 'time to the first token' },
  cost: { type: 'money', of: 'trace', meaning: 'cost in USD' },
  tokens: { type: 'count', of: 'trace', meaning: 'tokens in all' },
  input_tokens: { type: 'count', of: 'trace', meaning: 'tokens of inputs' },
  output_tokens: { type: 'count', of: 'trace', meaning: 'tokens of outputs' },
  observations: { type: 'count', of: 'trace', meaning: 'number of observations' },
  session: { type: 'text', of: 'trace', meaning: 'session id' },
  user: { type: 'text', of: 'trace', meaning: 'user id' },
  source: {
    type: 'choice',
    of: 'trace',
    meaning: 'format in which the trace arrived',
    choices: OBSERVATION_SOURCES,
  },
  key: { type: 'text', of: 'trace', meaning: 'id of the API key that sent it' },
  environment: { type: 'text', of: 'trace', meaning: 'deployment environment' },
  release: { type: 'text', of: 'trace', meaning: 'release of the application' },
  tag: { type: 'text', of: 'trace', meaning: 'a tag' },
  custom: { type: 'text', of: 'trace', meaning: 'custom field NAME', isKeyed: true },
  score: { type: 'score', of: 'trace', meaning: 'score NAME', isKeyed: true },
  span: { type: 'text', of: 'observation', meaning: "an observation's name" },
  kind: {
    type: 'choice',
    of: 'observation',
    meaning: "an observation's kind",
    choices: OBSERVATION_KINDS,
  },
  model: { type: 'text', of: 'observation', meaning: 'model' },
  provider: { type: 'text', of: 'observation', meaning: 'provider of the model' },
  error: { type: 'text', of: 'observation', meaning: 'type of an error' },
  tool: { type: 'text', of: 'observation', meaning: 'name of a tool' },
  prompt: { type: 'text', of: 'observation', meaning: 'name of a prompt' },
} as const satisfies Readonly<Record<string, QueryField>>;

export type FieldName = keyof typeof TABLE;
export const FIELD_NAMES = Object.keys(TABLE) as readonly FieldName[];
export const FIELDS: Readonly<Record<FieldName, QueryField>> = TABLE;

export function isFieldName(name: string): name is FieldName {
  return Object.hasOwn(TABLE, name);
}
