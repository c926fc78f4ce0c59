import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipString,
  skipValue,
  spaceFrom,
  type Text,
  textOf,
} from '../json/grammar.ts';
import { compilePattern, type KeyTable, nodeForAny } from '../json/pattern.ts';
import { stringIn } from '../json/read.ts';
import { ATTRIBUTES_OF_FIELDS, type KeyOfFields, keyOfFieldsAt } from './custom-fields.ts';
import { VALUE } from './json-shape.ts';

/**
 * The path of the first `custom_fields` in the span or resource whose object is at `start` that is neither an object
 * nor null; undefined if all are right. It decodes no value: JSON.parse of a span with long integers takes ten times
 * as long as its scan. The bytes are read once, and again only behind a key that follows its value.
 */
export function wrongFieldsInJson(bytes: Buffer, start: number): string | undefined {
  return new Reader(bytes).wrongIn(start);
}

/** The names of members that matter, by their slots. */
const OF_SPAN = compilePattern(['attributes'], []).root;
const OF_KEY_VALUE = compilePattern(['key', 'value'], []).root;
const KEY_SLOT = 0;
const OF_KVLIST = compilePattern(['values'], []).root;
const OF_VALUE = compilePattern([...VALUE.fields.keys()], []).root;
const KVLIST_SLOT = [...VALUE.fields.keys()].indexOf('kvlistValue');

const NULL = 0x6e;
/** The longest of the keys, with each character as an escape of six bytes. */
const LONGEST_ESCAPED = 6 * Math.max(...ATTRIBUTES_OF_FIELDS.map(({ key }) => key.length));

/** The last of repeated members counts, as in JSON.parse. Each method but `wrongIn` returns the end of what it reads. */
class Reader {
  readonly #text: Text;
  readonly #bytes: Buffer;
  /** Of the member that was read last. */
  #nameStart = 0;
  #nameEnd = 0;
  /** Of the value that was read last: it is, or has within it, a `custom_fields` of a wrong type. */
  #isWrong = false;
  /** The key of the attribute or entry that was read last, if it was one of those to follow. */
  #key: KeyOfFields | undefined;

  constructor(bytes: Buffer) {
    this.#text = textOf(bytes, Number.MAX_SAFE_INTEGER);
    this.#bytes = bytes;
  }

  wrongIn(start: number): string | undefined {
    let wrong: string | undefined;
    let at = this.#open(start);
    while (this.#bytes[at] !== CLOSE_BRACE) {
      const value = this.#member(at);
      if (this.#slotIn(OF_SPAN) === undefined) {
        at = this.#behind(skipValue(this.#text, value, 0));
        continue;
      }
      wrong = undefined;
      const end = this.#list(value, ATTRIBUTES_OF_FIELDS, () => {
        if (this.#isWrong) wrong ??= this.#key?.path;
      });
      at = this.#behind(end);
    }
    return wrong;
  }

  /** Attributes or entries; `onFound` is called behind each that has one of the keys. */
  #list(start: number, keys: readonly KeyOfFields[], onFound: () => void): number {
    if (this.#bytes[start] !== OPEN_BRACKET) return skipValue(this.#text, start, 0);
    let at = this.#open(start);
    while (this.#bytes[at] !== CLOSE_BRACKET) {
      const end = this.#keyValue(at, keys);
      if (this.#key !== undefined) onFound();
      at = this.#behind(end);
    }
    return at + 1;
  }

  #keyValue(start: number, keys: readonly KeyOfFields[]): number {
    let key: KeyOfFields | undefined;
    let valueStart = 0;
    /** The key with which the value was read. */
    let readAs: KeyOfFields | undefined;
    let isWrong = false;
    let at = this.#open(start);
    while (this.#bytes[at] !== CLOSE_BRACE) {
      const member = this.#member(at);
      const slot = this.#slotIn(OF_KEY_VALUE);
      if (slot === KEY_SLOT) {
        const { escapes } = this.#text;
        const end = skipValue(this.#text, member, 0);
        key = this.#keyAt(keys, member, end, this.#text.escapes !== escapes);
        at = this.#behind(end);
      } else if (slot !== undefined) {
        valueStart = member;
        readAs = key;
        at = this.#behind(this.#value(member, key));
        isWrong = this.#isWrong;
      } else {
        at = this.#behind(skipValue(this.#text, member, 0));
      }
    }
    if (key !== undefined && key !== readAs && valueStart !== 0) {
      this.#value(valueStart, key);
      isWrong = this.#isWrong;
    }
    this.#key = key;
    this.#isWrong = key !== undefined && valueStart !== 0 && isWrong;
    return at + 1;
  }

  /** The value of this key; without one, the value is skipped. */
  #value(start: number, key: KeyOfFields | undefined): number {
    this.#isWrong = false;
    if (key === undefined || this.#bytes[start] !== OPEN_BRACE) {
      return skipValue(this.#text, start, 0);
    }
    const isWhole = key.within.length === 0;
    let isWrongWithin = false;
    /** A bit for each member that is not null, by its slot. */
    let given = 0;
    let at = this.#open(start);
    while (this.#bytes[at] !== CLOSE_BRACE) {
      const member = this.#member(at);
      const isNull = this.#bytes[member] === NULL;
      const slot = this.#slotIn(OF_VALUE);
      if (slot !== undefined) given = isNull ? given & ~(1 << slot) : given | (1 << slot);
      if (slot === KVLIST_SLOT && !isNull && !isWhole) {
        at = this.#behind(this.#kvlist(member, key.within));
        isWrongWithin = this.#isWrong;
      } else {
        at = this.#behind(skipValue(this.#text, member, 0));
      }
    }
    const isKvlist = (given & (1 << KVLIST_SLOT)) !== 0;
    this.#isWrong = isWhole ? !isKvlist && given !== 0 : isKvlist && isWrongWithin;
    return at + 1;
  }

  #kvlist(start: number, keys: readonly KeyOfFields[]): number {
    let isWrong = false;
    let at = this.#open(start);
    while (this.#bytes[at] !== CLOSE_BRACE) {
      const member = this.#member(at);
      if (this.#slotIn(OF_KVLIST) !== undefined) {
        isWrong = false;
        const end = this.#list(member, keys, () => {
          isWrong = this.#isWrong;
        });
        at = this.#behind(end);
      } else {
        at = this.#behind(skipValue(this.#text, member, 0));
      }
    }
    this.#isWrong = isWrong;
    return at + 1;
  }

  /** The first member or element of the container at `start`, or its end. */
  #open(start: number): number {
    return spaceFrom(this.#text, start + 1);
  }

  /** The next member or element behind `end`, or the end of the container. */
  #behind(end: number): number {
    const at = spaceFrom(this.#text, end);
    return this.#bytes[at] === COMMA ? spaceFrom(this.#text, at + 1) : at;
  }

  /** The start of the value of the member at `at`. */
  #member(at: number): number {
    const end = skipString(this.#text, at + 1);
    this.#nameStart = at + 1;
    this.#nameEnd = end - 1;
    return skipColon(this.#text, end);
  }

  #slotIn(names: KeyTable): number | undefined {
    return nodeForAny(names, this.#bytes, this.#nameStart, this.#nameEnd)?.slot;
  }

  /** The key among `keys` that the value at [start, end) is. */
  #keyAt(
    keys: readonly KeyOfFields[],
    start: number,
    end: number,
    isEscaped: boolean,
  ): KeyOfFields | undefined {
    if (this.#bytes[start] !== QUOTE) return undefined;
    if (!isEscaped) return keyOfFieldsAt(keys, this.#bytes, start + 1, end - 1);
    if (end - start - 2 > LONGEST_ESCAPED) return undefined;
    const text = stringIn(this.#bytes, start, end);
    return keys.find(({ key }) => key === text);
  }
}
