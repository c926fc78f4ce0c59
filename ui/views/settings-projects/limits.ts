const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
};

/** A number with or without commas, a fraction, a unit. */
const LIMIT = /^(\d+|\d{1,3}(?:,\d{3})+)(\.\d+)?([a-z]*)$/;

/**
 * `1,000,000`, `1.5M`, `512 MiB`. Null for an empty text, which is no limit; undefined if it is no whole number from 1, or if its
 * separators have another meaning in some countries, as in `50.000` and `1,5M`.
 */
export function parseLimit(text: string): number | null | undefined {
  const wanted = text.replaceAll(/[\s_]/g, '').toLowerCase();
  if (wanted === '') return null;
  const [, digits = '', fraction = '', unit = ''] = LIMIT.exec(wanted) ?? [];
  const size = Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
  if (digits === '' || size === undefined || (fraction !== '' && unit === '')) return undefined;
  const value = Number(digits.replaceAll(',', '') + fraction) * size;
  return Number.isSafeInteger(value) && value >= 1 ? value : undefined;
}

/** A text that a person can type into a field, character by character. */
const TYPEABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]+(?: [\p{L}\p{M}\p{N}\p{P}\p{S}]+)*$/u;

/** The text that confirms a deletion: the name, or the id if the name has characters that no key types. */
export function typedName({ id, name }: { readonly id: string; readonly name: string }): string {
  return TYPEABLE.test(name) && name.length <= 60 ? name : id;
}
