import { ApiFailure } from '../../api/client.ts';
import type { Scores } from '../../api/types.ts';

/** The kinds of values that a score may have. */
export const VALUE_KINDS = [
  { name: 'number', label: 'Number' },
  { name: 'boolean', label: 'True or false' },
  { name: 'text', label: 'Text' },
] as const;
type ValueKind = (typeof VALUE_KINDS)[number]['name'];

/** A score as its form has it. */
export type Draft = {
  /** Of the score that it changes; undefined for a new one. */
  readonly id: string | undefined;
  /** Null for the whole trace. */
  readonly observationId: string | null;
  readonly name: string;
  readonly kind: ValueKind;
  readonly value: string;
  readonly comment: string;
};

export const NEW_SCORE: Draft = {
  ...{ id: undefined, observationId: null, name: '' },
  ...{ kind: 'number', value: '', comment: '' },
};

/** A stored score in its form. A text that looks like a number stays a text. */
export function draftOf(score: Scores['scores'][number]): Draft {
  const { id, observation_id: observationId, name, value, comment } = score;
  const kind =
    typeof value === 'string' ? 'text' : typeof value === 'number' ? 'number' : 'boolean';
  return { id, observationId, name, kind, value: String(value), comment: comment ?? '' };
}

/** The `source` of a score that the web UI writes. */
const SOURCE = 'web ui';

/** The body of the request. Throws an `ApiFailure` if the value is not of its kind. */
export function scoreOf({ id, observationId, name, kind, value, comment }: Draft): object {
  return {
    ...(id === undefined ? {} : { id }),
    observation_id: observationId,
    name: id === undefined ? name.trim() : name,
    value: kind === 'number' ? numberOf(value) : kind === 'boolean' ? value === 'true' : value,
    comment: comment.trim() === '' ? null : comment,
    source: SOURCE,
  };
}

function numberOf(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  const message = 'Value: give a number such as 0.8, or choose Text.';
  throw new ApiFailure(0, { code: 'invalid_field', message });
}
