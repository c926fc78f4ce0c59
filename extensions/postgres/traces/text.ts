import type { Key } from '../../../src/store/rows/observation-row.ts';

/**
 * Text and keys as the tables of traces keep them. Postgres rejects NUL and unpaired surrogates in text. They become
 * sequences of control characters, one to one, so that all other text stays as it is and can be searched.
 */

const ESCAPE = '\u0001';
const NUL = `${ESCAPE}\u0002`;
const ITSELF = `${ESCAPE}\u0003`;
/** Before the id of a parent that looks like the short form of a span's id, and is not. */
const WHOLE_PARENT = `${ESCAPE}\u0004`;
/** The four hex digits of an unpaired surrogate follow `ESCAPE` as characters from here on. */
const DIGITS = 0x10;

// biome-ignore lint/suspicious/noControlCharactersInRegex: Postgres rejects NUL.
const ESCAPED = /[\u0000\u0001]|\p{Surrogate}/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const ESCAPES = /\u0001(?:\u0002|\u0003|[\u0010-\u001f]{4})/g;

export function escapeText(text: string): string {
  // Hot path, runs for every text of a row: cheaper than a regular expression.
  if (!text.includes('\u0000') && !text.includes(ESCAPE) && text.isWellFormed()) return text;
  return text.replaceAll(ESCAPED, (found) => {
    if (found === '\u0000') return NUL;
    if (found === ESCAPE) return ITSELF;
    const unit = found.charCodeAt(0);
    const digits = [12, 8, 4, 0].map((shift) => DIGITS + ((unit >> shift) & 15));
    return ESCAPE + String.fromCharCode(...digits);
  });
}

function unescapeText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(ESCAPES, (found) => {
    if (found === NUL) return '\u0000';
    if (found === ITSELF) return ESCAPE;
    let unit = 0;
    for (let i = 1; i < found.length; i++) unit = unit * 16 + found.charCodeAt(i) - DIGITS;
    return String.fromCharCode(unit);
  });
}

export function textOrNull(text: string | null): string | null {
  return text === null ? null : unescapeText(text);
}

type Parent = string | Uint8Array | null;

export function escapeParent(parent: Parent): string | null {
  if (parent === null) return null;
  if (typeof parent === 'string') return escapeText(parent);
  return WHOLE_PARENT + escapeText(Buffer.from(parent).toString());
}

export function unescapeParent(text: string | null): Parent {
  if (text === null) return null;
  if (!text.startsWith(WHOLE_PARENT)) return unescapeText(text);
  return Buffer.from(unescapeText(text.slice(WHOLE_PARENT.length)));
}

/** The first byte of a hashed key: no text begins with it in UTF-8. */
const HASHED = 0xff;

export function bytesOfKey(key: Key): Buffer {
  if (typeof key === 'string') return Buffer.from(escapeText(key));
  return Buffer.concat([Buffer.of(HASHED), key]);
}

export function keyOfBytes(bytes: Buffer): Key {
  return bytes[0] === HASHED ? bytes.subarray(1) : unescapeText(bytes.toString());
}

/**
 * A key as Postgres writes it with `encode(key, 'escape')`: bytes above 127 and NUL as three octal digits, and a backslash twice. Also the
 * form `\x` with hexadecimal digits, which no escaped key begins with.
 */
export function keyOfEscaped(text: string): Key {
  // Hot path: the key of a span is ASCII, and becomes no bytes.
  if (!text.includes('\\')) return unescapeText(text);
  if (text.startsWith('\\x')) return keyOfBytes(Buffer.from(text.slice(2), 'hex'));
  const latin = text.replaceAll(/\\(\\|[0-7]{3})/g, (_, found: string) =>
    found === '\\' ? found : String.fromCharCode(Number.parseInt(found, 8)),
  );
  return keyOfBytes(Buffer.from(latin, 'latin1'));
}

/** Postgres reads such a key from text as the same bytes, in an array too. */
const PLAIN_KEY = /^[\w:.-]*$/;

/** A key as a parameter of type `bytea`: as it is if Postgres reads the same bytes from it, otherwise its bytes. */
export function keyParameter(key: Key): string | Buffer {
  return typeof key === 'string' && PLAIN_KEY.test(key) ? key : bytesOfKey(key);
}
