import { BACKSLASH, QUOTE } from './json/grammar.ts';
import { stringIn } from './json/read.ts';

/**
 * The texts of an item: the strings that a processor may read, mask or replace, as byte ranges of the
 * inflated body. A walk over them builds no strings.
 */

/** The part of an item that a text belongs to, as processors' configuration names it. */
export const TEXT_FIELDS = [
  'name',
  'inputs',
  'outputs',
  'metadata',
  'events',
  'error',
  'custom_fields',
  /** OTLP attributes without another field; members of native events and runs that have none. */
  'attributes',
  /** Ids, times and enumerations: the item's identity and validity depend on them. */
  'fixed',
] as const;
export type TextField = (typeof TEXT_FIELDS)[number];

/** Ranges are [start, end) in the index's bytes, without quotes. */
export type TextPlace = {
  readonly field: TextField;
  readonly start: number;
  readonly end: number;
  /** The text is spelled as in JSON and holds a backslash. */
  readonly isEscaped: boolean;
  /** The JSON member name or attribute key nearest to the text; -1, -1 if it has none. It may be escaped. */
  readonly keyStart: number;
  readonly keyEnd: number;
  /** The highest mark of the nearest key and the keys around it. */
  readonly mark: Mark;
};

/** How a visitor marks a key: not, or the texts of its value, or the numbers too. */
export const Mark = { NONE: 0, TEXTS: 1, ALL: 2 } as const;
export type Mark = (typeof Mark)[keyof typeof Mark];

/** Of a key with the mark `own`, in a value with the mark `around`: that which takes more. */
export function higherMark(own: Mark | undefined, around: Mark): Mark {
  return own !== undefined && own > around ? own : around;
}

export type TextVisitor = {
  /**
   * Called for every text in the order of the bytes. `place` is one object that the walk reuses: a visitor
   * copies what it keeps. A visitor does not change the bytes during the walk.
   */
  text(place: TextPlace): void;
  /**
   * Called once for every key, before the texts of its value, which the mark is about at any depth. A key is fixed if it is a name of the
   * format: a processor that edits it loses its value.
   */
  marks?(keyStart: number, keyEnd: number, isFixed: boolean): Mark;
  /** Called for every number and byte sequence that is not empty, at any depth below a key with the mark `ALL`. */
  scalar?(place: ScalarPlace): void;
};

/** A value of an item that is no text. */
export type ScalarPlace = {
  readonly field: TextField;
  readonly start: number;
  readonly end: number;
  /** A JSON token, quotes included; a varint; or a byte sequence or a number of fixed size. */
  readonly form: 'json' | 'varint' | 'bytes';
};

/** A walk over texts, which yields after each few hundred of them: an item may have millions. */
export type TextSteps = Generator<undefined, void>;

/** Members of objects and elements of arrays between two yields of a walk. */
export const MEMBERS_PER_STEP = 256;

/** A `TextPlace` that a walk fills in. */
export type MutablePlace = { -readonly [Key in keyof TextPlace]: TextPlace[Key] };

export function newPlace(): MutablePlace {
  return {
    field: 'fixed',
    start: 0,
    end: 0,
    isEscaped: false,
    keyStart: -1,
    keyEnd: -1,
    mark: Mark.NONE,
  };
}

/** A range of a body's bytes, and the bytes that replace it. */
export type Splice = { readonly start: number; readonly end: number; readonly bytes: Uint8Array };

/** The change of an item's parent after its own was dropped. Ids are those of the common form. */
export type NewParent = {
  /** Null makes the item a root. */
  readonly parentId: string | null;
  readonly originalParentId: string;
  /** The dropped parent's trace, for an item that names none; null if it is not known. */
  readonly traceId: string | null;
};

/** The bytes of a text, and how it is spelled. */
export type TextRange = Pick<TextPlace, 'start' | 'end' | 'isEscaped'>;

/**
 * The text at a place as a string, with the way back from its UTF-16 offsets to bytes. Offsets are best asked
 * for in ascending order: each one then continues from the last, and all together cost one pass.
 */
export class DecodedText {
  readonly text: string;
  readonly #bytes: Buffer;
  readonly #range: TextRange;
  /** Every character is one byte. */
  readonly #isPlain: boolean;
  #offset = 0;
  #position: number;

  constructor(bytes: Buffer, { start, end, isEscaped }: TextRange) {
    this.text = isEscaped
      ? stringIn(bytes, start - 1, end + 1)
      : bytes.toString('utf8', start, end);
    this.#bytes = bytes;
    this.#range = { start, end, isEscaped };
    this.#isPlain = this.text.length === end - start;
    this.#position = start;
  }

  /** The bytes of the characters at [from, to) of the text; a character that an offset cuts is whole in it. */
  rangeOf(from: number, to: number): { start: number; end: number } {
    const { start } = this.#range;
    if (this.#isPlain) return { start: start + from, end: start + to };
    const first = this.#seek(from);
    const position = this.#position;
    return { start: first, end: to > from ? this.#seekEnd(to) : position };
  }

  /** Goes to the character that holds the offset; returns where it starts. */
  #seek(offset: number): number {
    if (offset < this.#offset) {
      this.#offset = 0;
      this.#position = this.#range.start;
    }
    while (this.#position < this.#range.end) {
      const length = characterAt(this.#bytes, this.#position, this.#range);
      if (this.#offset + units > offset) break;
      this.#offset += units;
      this.#position += length;
    }
    return this.#position;
  }

  #seekEnd(offset: number): number {
    while (this.#offset < offset && this.#position < this.#range.end) {
      const length = characterAt(this.#bytes, this.#position, this.#range);
      this.#offset += units;
      this.#position += length;
    }
    return this.#position;
  }
}

/**
 * The range [start, end) of a text with the characters and escapes that it cuts, so that the text stays valid
 * if the range is overwritten or replaced. An empty range stays empty.
 */
export function wholeCharacters(
  bytes: Buffer,
  text: TextRange,
  start: number,
  end: number,
): { start: number; end: number } {
  if (start >= end) return { start, end };
  const first = cutCharacter(bytes, text, start)?.start ?? start;
  const last = cutCharacter(bytes, text, end)?.end ?? end;
  return { start: Math.max(first, text.start), end: Math.min(last, text.end) };
}

/** Overwrites a number or byte sequence with zeros, or with a null in JSON. No byte moves. */
export function maskScalar(
  bytes: Buffer,
  { start, end, form }: Pick<ScalarPlace, 'start' | 'end' | 'form'>,
): void {
  switch (form) {
    case 'bytes':
      bytes.fill(0, start, end);
      break;
    case 'varint':
      // A zero may have as many bytes as any other number.
      bytes.fill(0x80, start, end - 1);
      bytes[end - 1] = 0;
      break;
    case 'json': {
      const isNull = bytes[start] === QUOTE && end - start >= NULL.length;
      const value = isNull ? NULL : ZERO;
      bytes.fill(SPACE, start + value.length, end);
      bytes.write(value, start, 'latin1');
    }
  }
}

const NULL = 'null';
const ZERO = '0';
const SPACE = 0x20;

/** The character that a position is inside of; undefined if the position is between two characters. */
function cutCharacter(
  bytes: Buffer,
  range: TextRange,
  position: number,
): { start: number; end: number } | undefined {
  const from = Math.max(range.start, position - LONGEST_CHARACTER + 1);
  for (let start = from; start < position; start++) {
    if (!isCharacterStart(bytes, range, start)) continue;
    const end = start + characterAt(bytes, start, range);
    if (end > position) return { start, end };
  }
  return undefined;
}

/** A surrogate pair of two escapes. */
const LONGEST_CHARACTER = 12;

/** Only characters of several bytes matter: a UTF-8 lead byte, or the backslash of an escape. */
function isCharacterStart(bytes: Buffer, range: TextRange, position: number): boolean {
  const byte = bytes[position] ?? 0;
  if (byte >= 0xc0) return true;
  if (byte !== BACKSLASH || !range.isEscaped) return false;
  let before = position;
  while (before > range.start && bytes[before - 1] === BACKSLASH) before--;
  return (position - before) % 2 === 0;
}

/** UTF-16 code units of the character that `characterAt` measured last. */
let units = 1;

/** Bytes of the character or escape at a position. Broken UTF-8 counts as its decoders replace it. */
function characterAt(bytes: Buffer, position: number, range: TextRange): number {
  const byte = bytes[position] ?? 0;
  units = 1;
  if (byte >= 0x80) return sequenceAt(bytes, position, range.end);
  if (byte !== BACKSLASH || !range.isEscaped) return 1;
  if (bytes[position + 1] !== LETTER_U) return 2;
  const isPair = isEscapeOf(bytes, position, 0xd8) && isEscapeOf(bytes, position + 6, 0xdc);
  if (!isPair) return 6;
  units = 2;
  return 12;
}

const LETTER_U = 0x75;

/** An escape of a surrogate: `high` is 0xd8 for the first half of a pair and 0xdc for the second. */
function isEscapeOf(bytes: Buffer, position: number, high: 0xd8 | 0xdc): boolean {
  if (bytes[position] !== BACKSLASH || bytes[position + 1] !== LETTER_U) return false;
  const digits = Number.parseInt(bytes.toString('latin1', position + 2, position + 4), 16);
  return (digits & 0xfc) === high;
}

/** Bytes of the UTF-8 sequence at a position, or of the part of a broken one that becomes one U+FFFD. */
function sequenceAt(bytes: Buffer, position: number, end: number): number {
  const lead = bytes[position] ?? 0;
  if (lead < 0xc2 || lead > 0xf4) return 1;
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
  let least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  let most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  for (let i = 1; i < length; i++) {
    const byte = position + i < end ? (bytes[position + i] ?? 0) : 0;
    if (byte < least || byte > most) return i;
    least = 0x80;
    most = 0xbf;
  }
  units = length === 4 ? 2 : 1;
  return length;
}
