import { Refusal } from '../../model/errors.ts';

/** A JSON object of a client. */
export type Members = Readonly<Record<string, unknown>>;

/** Throws a `Refusal` (400) if the value is no object. */
export function objectOf(value: unknown, what: string): Members {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  throw new Refusal('invalid_request', `${what} must be an object.`);
}

/** Undefined if the member is absent, null, empty or no text. */
export function textIn(members: Members, name: string): string | undefined {
  const value = members[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Undefined unless the member is a list. */
export function textsIn(members: Members, name: string): string[] | undefined {
  const value = members[name];
  return Array.isArray(value) ? value.map(String) : undefined;
}
