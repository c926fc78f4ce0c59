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

/** `1,000,000`, `1.5M`, `512 MiB`. Null for an empty text, which is no limit; undefined if it is no whole number from 1. */
export function parseLimit(text: string): number | null | undefined {
  const wanted = text.replaceAll(/[\s,_]/g, '').toLowerCase();
  if (wanted === '') return null;
  const [, digits = '', unit = ''] = /^(\d+(?:\.\d+)?)([a-z]*)$/.exec(wanted) ?? [];
  const size = Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
  if (digits === '' || size === undefined) return undefined;
  const value = Number(digits) * size;
  return Number.isSafeInteger(value) && value >= 1 ? value : undefined;
}

/** A text that a person can type into a field, character by character. */
const TYPEABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]+(?: [\p{L}\p{M}\p{N}\p{P}\p{S}]+)*$/u;

/** The text that confirms a deletion: the name, or the id if the name has characters that no key types. */
export function typedName({ id, name }: { readonly id: string; readonly name: string }): string {
  return TYPEABLE.test(name) && name.length <= 60 ? name : id;
}
