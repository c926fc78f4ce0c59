import { isAscii, isUtf8 } from 'node:buffer';
import type { Finding } from './rules/finding.ts';

/**
 * Characters of a text, and the bytes they come from. A match in `text` becomes a range of bytes that
 * never splits a character or an escape, so that overwriting it leaves valid UTF-8 and valid JSON. Unlike
 * `DecodedText` of src/model/texts.ts it may be a part of a text, and unescaped more than once.
 */
export type TextForm = {
  readonly text: string;
  /** The byte at which character i starts, and behind the last one the end; undefined for `start + i`. */
  readonly offsets: Uint32Array | undefined;
  readonly start: number;
};

/** The byte at which a character starts; for `text.length` the byte behind the last character. */
export function byteAt({ offsets, start }: TextForm, character: number): number {
  return offsets === undefined ? start + character : (offsets[character] ?? start);
}

/**
 * The range without the parts of escapes at its edges. The text may hold JSON, which is unescaped in a further
 * form: in `\\njane@example.com` the `n` belongs to the escape, and the JSON would be broken without it.
 */
export function outsideEscapes(text: string, range: Finding): Finding {
  const behind = escapeAround(text, range.start);
  let end = escapeAround(text, range.end)?.start ?? range.end;
  while (end > range.start && text[end - 1] === '\\') end--;
  return { start: behind?.end ?? range.start, end };
}

/**
 * The escape that a position is inside of; undefined if there is none. An even number of backslashes escapes
 * nothing in this form, but may in a further one.
 */
function escapeAround(text: string, at: number): Finding | undefined {
  for (let start = at - 1; start > at - LONGEST_ESCAPE && start >= 0; start--) {
    if (text[start] !== '\\') continue;
    const length = escapeLength(text, start);
    return length > 1 && start + length > at ? { start, end: start + length } : undefined;
  }
  return undefined;
}

const LONGEST_ESCAPE = 6;

/** Characters of the escape that starts with the backslash at `at`; 1 if there is none. */
function escapeLength(text: string, at: number): number {
  const next = text[at + 1] ?? '';
  if (next === 'u') return HEX.test(text.slice(at + 2, at + 6)) ? LONGEST_ESCAPE : 1;
  return next in SIMPLE ? 2 : 1;
}

/** Rounds of unescaping: the text of a JSON string, JSON in it, JSON in a string of that, and one more. */
const MAX_ROUNDS = 4;

/**
 * The forms in which a secret may be read from [start,end): the text itself, and what each further round of
 * JSON unescaping makes of it. A string may hold JSON whose strings hold JSON again (arguments of tools), so
 * every round is searched. `isJson` says that the bytes are the content of a JSON string: then the first
 * form is its value.
 */
export function* formsOf(
  bytes: Buffer,
  start: number,
  end: number,
  isJson: boolean,
): Generator<TextForm> {
  const encoded = plainForm(bytes, start, end);
  let form = isJson ? undefined : encoded;
  if (form !== undefined) yield form;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const next = unescapeOnce(form ?? encoded);
    if (next === undefined) break;
    form = next;
    yield form;
  }
  if (form === undefined) yield encoded;
}

/** The characters of a text as a whole: the first of its forms. */
export function decodedText(bytes: Buffer, start: number, end: number, isJson: boolean): string {
  if (isJson) return String(JSON.parse(`"${bytes.toString('utf8', start, end)}"`));
  return bytes.toString(isUtf8(bytes.subarray(start, end)) ? 'utf8' : 'latin1', start, end);
}

/** Bytes that are no UTF-8 are read as Latin-1: the ASCII in them is searched all the same. */
function plainForm(bytes: Buffer, start: number, end: number): TextForm {
  const part = bytes.subarray(start, end);
  if (isAscii(part) || !isUtf8(part)) {
    return { text: bytes.toString('latin1', start, end), offsets: undefined, start };
  }
  const text = bytes.toString('utf8', start, end);
  const offsets = new Uint32Array(text.length + 1);
  let at = start;
  for (let i = 0; i < text.length; i++) {
    offsets[i] = at;
    at += utf8Length(text.charCodeAt(i));
  }
  offsets[text.length] = at;
  return { text, offsets, start };
}

/** Bytes behind a UTF-16 unit. Both halves of a pair start where the pair does: no range splits it. */
function utf8Length(unit: number): number {
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  if (unit < 0xd800 || unit > 0xdfff) return 3;
  return unit < 0xdc00 ? 0 : 4;
}

const SIMPLE: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/**
 * One round of JSON unescaping; undefined if the text has no escape. A backslash that starts none stays: the
 * text need not be JSON.
 */
function unescapeOnce(form: TextForm): TextForm | undefined {
  const { text, start } = form;
  let at = text.indexOf('\\');
  if (at === -1) return undefined;
  const offsets = new Uint32Array(text.length + 1);
  const parts: string[] = [];
  let length = 0;
  const copy = (from: number, to: number) => {
    parts.push(text.slice(from, to));
    for (let i = from; i < to; i++) offsets[length++] = byteAt(form, i);
  };
  let copied = 0;
  while (at !== -1) {
    const escaped = escapeLength(text, at);
    if (escaped > 1) {
      copy(copied, at);
      offsets[length++] = byteAt(form, at);
      parts.push(unitOf(text, at, escaped));
      copied = at + escaped;
    }
    at = text.indexOf('\\', at + escaped);
  }
  if (copied === 0) return undefined;
  copy(copied, text.length);
  offsets[length] = byteAt(form, text.length);
  return { text: parts.join(''), offsets: offsets.subarray(0, length + 1), start };
}

function unitOf(text: string, at: number, length: number): string {
  if (length < LONGEST_ESCAPE) return SIMPLE[text[at + 1] ?? ''] ?? '';
  return String.fromCharCode(Number.parseInt(text.slice(at + 2, at + 6), 16));
}

const HEX = /^[0-9a-fA-F]{4}$/;
