import { Refusal } from '../../model/errors.ts';
import type { Members } from './members.ts';

/** The form of a member of a request. */
export type Form = { readonly what: string; readonly holds: (value: unknown) => boolean };

const isText = (value: unknown) => typeof value === 'string' && value !== '';

export const TEXT: Form = { what: 'a text', holds: isText };

export const FLAG: Form = {
  what: 'true or false',
  holds: (value) => typeof value === 'boolean',
};

export const TEXTS: Form = {
  what: 'a list of texts',
  holds: (value) => Array.isArray(value) && value.length > 0 && value.every(isText),
};

export function numberUpTo(most: number): Form {
  const holds = (value: unknown) => Number(value) >= 1 && Number(value) <= most;
  return {
    what: `a whole number from 1 to ${most}`,
    holds: (value) => Number.isInteger(value) && holds(value),
  };
}

/** Throws a `Refusal` (400) for a member of another form. A member without a form passes. */
export function checkForms(given: Members, forms: ReadonlyMap<string, Form>): void {
  for (const [name, value] of Object.entries(given)) {
    const form = forms.get(name);
    if (value === null || value === undefined || form === undefined || form.holds(value)) continue;
    throw new Refusal('invalid_request', `body.${name} must be ${form.what}.`);
  }
}

/** Characters of a name that an error repeats. */
const MAX_SHOWN = 100;

/** A name of a client as an error shows it. */
export function shownName(name: string): string {
  return JSON.stringify(name.slice(0, MAX_SHOWN));
}
