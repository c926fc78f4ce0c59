import { type Finding, matchEnd } from './rules/finding.ts';
import type { SecretNames } from './secret-names.ts';
import { startsWord } from './secret-names.ts';

/** A secret value in a text, with the group of the name in front of it. */
type NamedValue = Finding & {
  readonly group: number;
  /** It is a number without quotes, so asterisks would break JSON around it. */
  readonly isNumber: boolean;
};

/** The values in a text; `open` is the last one if it may go on behind the text. */
export type FoundValues = {
  readonly values: readonly NamedValue[];
  readonly open: (Finding & { readonly group: number }) | undefined;
};

/**
 * Values behind secret names in a text that may be anything: JSON, code, headers, environment variables, URLs.
 *
 *   "password": "hunter2"          members of objects, in either quotes; everything in a list or an object
 *   token = "abc"                  assignments of a quoted text
 *   Authorization: Bearer abc      at the start of a line or of a quoted text, up to its end
 *   … authorization: Bearer abc    anywhere, if an authentication scheme follows
 *   API_KEY=abc                    in capitals, at the start of a line, or behind `?`, `&` or `;`
 */
export function namedValueFinder(names: SecretNames): (text: string) => FoundValues {
  const entry = new RegExp(`(?:${names.source})(?=["'\`])`, 'iy');
  const pattern = new RegExp(`(${names.source})(["'\`]?\\]?)(?:\\s{0,16})(:|=>?)`, 'gi');
  return (text) => {
    const values: NamedValue[] = [];
    let open: FoundValues['open'];
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      const { index } = match;
      const place = startsWord(text, index) ? placeOf(text, match) : undefined;
      const name = place && names.match(place.name);
      const value = place && name && valueBehind(text, place, name.isExact, entry);
      for (const { start, end, isNumber = false } of value?.parts ?? []) {
        if (end === start) continue;
        values.push({ start, end, group: name?.group ?? 0, isNumber });
      }
      if (value?.end === text.length) open = { ...value, group: name?.group ?? 0 };
      pattern.lastIndex = Math.max(value?.end ?? 0, index + 1);
    }
    return { values, open };
  };
}

/** A name, what is around it, and where its value may start. */
type Place = {
  readonly name: string;
  /** The character in front of the name; empty at the start of the text. */
  readonly before: string;
  /** The quote, bracket or both behind the name. */
  readonly close: string;
  readonly separator: ':' | '=';
  readonly start: number;
};

type Part = Finding & { readonly isNumber?: boolean };
type Value = Finding & { readonly parts: readonly Part[] };

const NAME_CHARACTER = /[\p{L}\p{N}_.$/-]/u;
const MAX_NAME = 128;
const QUOTE = /^["'`]$/;

function placeOf(text: string, match: RegExpExecArray): Place {
  const [matched, entry = '', close = '', separator] = match;
  const { index } = match;
  let nameStart = index;
  while (index - nameStart < MAX_NAME && NAME_CHARACTER.test(text[nameStart - 1] ?? ''))
    nameStart--;
  return {
    name: text.slice(nameStart, index + entry.length),
    before: text[nameStart - 1] ?? '',
    close,
    separator: separator === ':' ? ':' : '=',
    start: index + matched.length,
  };
}

/** Numbers without quotes are values if `withNumbers`, or below the name of a member that is an `entry`. */
function valueBehind(
  text: string,
  { name, before, close, separator, start }: Place,
  withNumbers: boolean,
  entry: RegExp,
): Value | undefined {
  const at = matchEnd(SPACE, text, start) ?? start;
  if (close !== '') {
    if (!QUOTE.test(before)) return undefined;
    return close === before ? memberValue(text, at, withNumbers, entry) : quotedValue(text, at);
  }
  const isHead = before === '' || /[\n\r"'`]/.test(before);
  if (separator === ':') {
    if (!isHead) return schemeValue(text, start);
    return headerValue(text, start, QUOTE.test(before) ? before : '');
  }
  const isVariable = isHead || /[?&;]/.test(before) || !/\p{Ll}/u.test(name);
  return quotedValue(text, at) ?? (isVariable ? wordValue(text, start) : undefined);
}

const SPACE = /\s*/y;

/** A quote that opens a text, with the prefixes that Python has. */
const OPENING = /(?:[bruf]|br|rb)?(["'`])/iy;

function quotedValue(text: string, start: number): Value | undefined {
  OPENING.lastIndex = start;
  const quote = OPENING.exec(text)?.[1];
  if (quote === undefined) return undefined;
  const from = OPENING.lastIndex;
  const end = closingQuote(text, from, quote);
  return onePart({ start: from, end });
}

function onePart(part: Part): Value {
  return { start: part.start, end: part.end, parts: [part] };
}

/** The end of a quoted text: its line's end if it is cut off. Only a template literal has several lines. */
function closingQuote(text: string, start: number, quote: string): number {
  const closing = quote.charCodeAt(0);
  for (let at = start; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === closing || (unit === LINE_FEED && quote !== '`')) return at;
    if (unit === BACKSLASH) at++;
  }
  return text.length;
}

const LINE_FEED = 0x0a;
const BACKSLASH = 0x5c;

const CONSTANT = /(?:true|false|null|none|undefined)\b/iy;
const NUMBER = /-?[0-9][0-9.eE+-]*/y;
const BARE_WORD = /[^\s,;}\])]+/y;

/** The value of a member of an object; undefined for constants. */
function memberValue(
  text: string,
  start: number,
  withNumbers: boolean,
  entry: RegExp,
): Value | undefined {
  if (start === text.length) return { start, end: start, parts: [] };
  if (opens(text.charCodeAt(start))) return containerValue(text, start, withNumbers, entry);
  const quoted = quotedValue(text, start);
  if (quoted !== undefined) return quoted;
  if (matchEnd(CONSTANT, text, start) !== undefined) return undefined;
  const numberEnd = matchEnd(NUMBER, text, start);
  const end = numberEnd ?? matchEnd(BARE_WORD, text, start);
  if (end === undefined) return undefined;
  if (numberEnd !== undefined && !withNumbers) return { start, end, parts: [] };
  return onePart({ start, end, isNumber: numberEnd !== undefined });
}

/** Values of a container that are redacted one by one. One with more values is redacted as a whole, which bounds the work of a turn. */
const MAX_PARTS = 4_096;

/**
 * Every text in a list, a tuple of Python or an object, except the names of members; every number too if `withNumbers`, and otherwise
 * those below a name that is an `entry`.
 */
function containerValue(text: string, start: number, withNumbers: boolean, entry: RegExp): Value {
  const parts: Part[] = [];
  let count = 0;
  const add = (part: Part) => {
    if (count++ < MAX_PARTS) parts.push(part);
  };
  let depth = 0;
  /** Numbers at this depth and below are values. */
  let secretDepth = withNumbers ? 0 : Number.POSITIVE_INFINITY;
  let at = start;
  do {
    // Hot path, runs for every character of a value that may have a megabyte: units cost less than texts of one.
    const unit = text.charCodeAt(at);
    if (isQuote(unit)) {
      const end = closingQuote(text, at + 1, text[at] ?? '');
      if (text[matchEnd(SPACE, text, end + 1) ?? end] !== ':') add({ start: at + 1, end });
      else if (depth < secretDepth && matchEnd(entry, text, at + 1) === end) secretDepth = depth;
      at = end;
    } else if (opens(unit)) {
      depth++;
    } else if (closes(unit)) {
      depth--;
      if (depth < secretDepth) secretDepth = Number.POSITIVE_INFINITY;
    } else if (unit === COMMA) {
      if (depth === secretDepth) secretDepth = Number.POSITIVE_INFINITY;
    } else if (startsNumber(unit)) {
      const end = matchEnd(NUMBER, text, at);
      if (end !== undefined && depth >= secretDepth) add({ start: at, end, isNumber: true });
      at = (end ?? at + 1) - 1;
    }
    at++;
  } while (depth > 0 && at < text.length);
  const end = depth > 0 ? text.length : at;
  if (count <= MAX_PARTS) return { start, end, parts };
  return { start, end, parts: [{ start: start + 1, end: depth > 0 ? end : end - 1 }] };
}

const COMMA = 0x2c;

function isQuote(unit: number): boolean {
  return unit === 0x22 || unit === 0x27 || unit === 0x60;
}

/** One of `(`, `[` and `{`. */
function opens(unit: number): boolean {
  return unit === 0x28 || unit === 0x5b || unit === 0x7b;
}

/** One of `)`, `]` and `}`. */
function closes(unit: number): boolean {
  return unit === 0x29 || unit === 0x5d || unit === 0x7d;
}

/** A digit or a minus sign. */
function startsNumber(unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x39) || unit === 0x2d;
}

const SCHEME = /[ \t]{0,16}(?:Bearer|Basic|Digest|Token|Api-?Key|Negotiate)[ \t]+/iy;
const CREDENTIAL = /[^\s"'`,;<>]+/y;

/** The credential behind an authentication scheme. */
function schemeValue(text: string, start: number): Value | undefined {
  const from = matchEnd(SCHEME, text, start);
  const end = from === undefined ? undefined : matchEnd(CREDENTIAL, text, from);
  if (from === undefined || end === undefined) return undefined;
  return onePart({ start: from, end });
}

const BLANK = /[ \t]*/y;
const LINE = { '': /[^\n\r]*/y, '"': /[^\n\r"]*/y, "'": /[^\n\r']*/y, '`': /[^\n\r`]*/y } as const;

/** The rest of the line, or of the quoted text that the name starts. A scheme in front of it stays. */
function headerValue(text: string, start: number, quote: string): Value | undefined {
  const from = matchEnd(SCHEME, text, start) ?? matchEnd(BLANK, text, start) ?? start;
  const end = matchEnd(LINE[quote as keyof typeof LINE], text, from) ?? from;
  return end > from ? onePart({ start: from, end }) : undefined;
}

const WORD = /[^\s"'`&#;<>]+/y;

function wordValue(text: string, start: number): Value | undefined {
  const end = matchEnd(WORD, text, start);
  return end === undefined ? undefined : onePart({ start, end });
}
