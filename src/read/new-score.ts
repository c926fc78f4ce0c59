import { didYouMean } from '../component/did-you-mean.ts';
import { Refusal } from '../model/errors.ts';
import { ulid } from '../model/ulid.ts';
import { wellFormed } from '../model/well-formed.ts';
import type { NewScore, ScoreValue } from '../store/scores.ts';

/** The most bytes in UTF-8 of each text of a score. */
export const SCORE_BYTES = {
  id: 200,
  observation_id: 1024,
  name: 200,
  value: 1000,
  comment: 8192,
  source: 200,
} as const;

const FIELDS = Object.keys(SCORE_BYTES) as readonly (keyof typeof SCORE_BYTES)[];
type Fields = Readonly<Partial<Record<keyof typeof SCORE_BYTES, unknown>>>;

const NO_NAME = /^$|[\p{Cc}\p{Cs}]/u;

/** The score of a request's body. Throws a `Refusal` (400) that names the field. */
export function newScore(body: unknown, now: number): NewScore {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalid('The body must be an object.');
  }
  for (const name of Object.keys(body)) checkField(name);
  const fields: Fields = body;
  const id = text(fields, 'id');
  const name = text(fields, 'name');
  if (name === null) throw invalid('body.name is required.');
  if (NO_NAME.test(name))
    throw invalid('body.name must have a character, and no control characters.');
  if (id !== null && NO_NAME.test(id)) {
    throw invalid('body.id must have a character, and no control characters.');
  }
  return {
    id: id ?? ulid(now),
    observationId: text(fields, 'observation_id'),
    name,
    value: scoreValue(fields),
    comment: text(fields, 'comment'),
    source: text(fields, 'source'),
    at: now,
  };
}

/** Characters of a name that an error repeats. */
const MAX_SHOWN = 100;

function checkField(name: string): void {
  if (FIELDS.some((field) => field === name)) return;
  const advice = didYouMean(name, FIELDS) || '.';
  throw invalid(`Unknown field ${JSON.stringify(name.slice(0, MAX_SHOWN))}${advice}`);
}

function scoreValue(fields: Fields): ScoreValue {
  const { value } = fields;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (typeof value !== 'string') throw invalid('body.value must be a number, a boolean or a text.');
  return text(fields, 'value') ?? '';
}

/** Null if the field is absent or null. */
function text(fields: Fields, name: keyof typeof SCORE_BYTES): string | null {
  const value = fields[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string') throw invalid(`body.${name} must be a text.`);
  const most = SCORE_BYTES[name];
  const stored = wellFormed(value);
  if (Buffer.byteLength(stored) > most) {
    throw invalid(`body.${name} must have at most ${most} bytes.`);
  }
  return stored;
}

function invalid(message: string): Refusal {
  return new Refusal('invalid_request', message);
}
