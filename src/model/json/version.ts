const MAX_VERSION = '18446744073709551615';

/** The longest spelling of a version, leading zeros included. */
export const MAX_SPELLING = 4096;

/**
 * An event version in plain decimal digits, from the JSON text of its value: a number with an integral value in any
 * spelling (`5`, `1.0`, `1e3`), or a string of decimal digits. Undefined for all other values and above 2^64-1.
 * Exact, because the text is never converted to a double.
 */
export function parseVersion(json: string): string | undefined {
  if (json.length > MAX_SPELLING) return undefined;
  if (json.startsWith('"')) {
    // Only a string with escapes is decoded.
    const text = json.includes('\\') ? String(JSON.parse(json)) : json.slice(1, -1);
    return /^\d+$/.test(text) ? bounded(text) : undefined;
  }
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(json);
  if (parts === null) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  const digits = trimZeros(whole + fraction);
  if (digits.significant === '') return '0';
  if (sign === '-') return undefined;
  // The value is `significant` times ten to this power.
  const power = Number(exponent) - fraction.length + digits.zeros;
  if (power < 0 || power > MAX_VERSION.length) return undefined;
  return bounded(digits.significant + '0'.repeat(power));
}

/** The digits without leading and trailing zeros, and the number of trailing zeros. */
function trimZeros(text: string): { significant: string; zeros: number } {
  let start = 0;
  while (text[start] === '0') start++;
  let end = text.length;
  while (end > start && text[end - 1] === '0') end--;
  return { significant: text.slice(start, end), zeros: text.length - end };
}

function bounded(digits: string): string | undefined {
  let start = 0;
  while (start < digits.length - 1 && digits[start] === '0') start++;
  const text = digits.slice(start);
  if (text.length !== MAX_VERSION.length)
    return text.length < MAX_VERSION.length ? text : undefined;
  return text <= MAX_VERSION ? text : undefined;
}
