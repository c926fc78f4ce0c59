import fc from 'fast-check';

/** Arbitrary JSON texts in every spelling of the grammar: white space, escapes, surrogates. */

const space = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  fc.constantFrom(' ', '\n', '\t', '\r\n  '),
);

const character = fc.oneof(
  { weight: 6, arbitrary: fc.string({ minLength: 1, maxLength: 6, unit: 'grapheme' }).map(raw) },
  fc.constantFrom('\\n', '\\t', '\\r', '\\b', '\\f', '\\"', '\\\\', '\\/'),
  fc.integer({ min: 0, max: 0xffff }).map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`),
  fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => `\\u${unit.toString(16).toUpperCase()}`),
  fc.constantFrom('\\ud83d\\ude00', '\u007f', '\u2028', '\\u0000', '\\u001F', '\\u005c', '\\u0022'),
);

/** The content of a JSON string, without quotes. */
export const inside = fc.array(character, { maxLength: 6 }).map((parts) => parts.join(''));

/** Numbers as JSON.stringify writes them. */
const canonicalNumber = fc
  .oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .map((value) => JSON.stringify(value));

const scalar = fc.oneof(
  inside.map((text) => `"${text}"`),
  canonicalNumber,
  fc.constantFrom('true', 'false', 'null'),
);

/**
 * Any value whose keys are distinct and whose numbers are canonical. No key ends with an escape, because V8 14.6
 * confuses such a key with an earlier one that ends with a backslash; see `decodeJson`.
 */
export const valueText: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    scalar,
    fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }).map((items) => {
      const members = items.map(([before, value, after]) => `${before}${value}${after}`);
      return `[${members.join(',')}]`;
    }),
    fc.array(fc.tuple(space, inside, space, tie('value')), { maxLength: 4 }).map((items) => {
      const members = items.map(
        ([before, key, after, value], i) => `${before}"k${i}${key}."${after}:${before}${value}`,
      );
      return `{${members.join(',')}}`;
    }),
  ),
})).value;

/** A key with some of its characters spelled as escapes. */
export function spelled(key: string): fc.Arbitrary<string> {
  return fc.array(fc.boolean(), { minLength: key.length, maxLength: key.length }).map((escaped) => {
    const parts = [...key].map((character, i) =>
      escaped[i] === true
        ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
        : character,
    );
    return parts.join('');
  });
}

function raw(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a JSON string may not contain them
  return text.replace(/[\u0000-\u001f"\\]/g, '~');
}
