import type { OtlpIndex } from '../batch-index.ts';
import {
  higherMark,
  Mark,
  MEMBERS_PER_STEP,
  type MutablePlace,
  newPlace,
  type TextField,
  type TextSteps,
  type TextVisitor,
} from '../texts.ts';
import { spanField } from './context.ts';
import { OtlpField } from './fields.ts';
import { keyAt } from './keys.ts';
import {
  WIRE_EVENT,
  WIRE_KEY_VALUE,
  WIRE_REQUEST,
  WIRE_SPAN,
  type WireMessage,
} from './wire-shape.ts';

/**
 * `FormatModule.texts` for protobuf. The walk skips unknown fields, because they may be strings or messages.
 * Numbers and byte sequences are no texts.
 */
export function wireTexts(index: OtlpIndex, position: number, visitor: TextVisitor): TextSteps {
  const start = spanField(index, position, OtlpField.START);
  const end = spanField(index, position, OtlpField.END);
  return new WireTexts(index.bytes, visitor).message(WIRE_SPAN, start, end);
}

/** `FormatModule.sharedTexts`: of resources, scopes and schema URLs. */
export function sharedWireTexts(index: OtlpIndex, visitor: TextVisitor): TextSteps {
  return new WireTexts(index.bytes, visitor).message(WIRE_REQUEST, 0, index.bytes.length);
}

const NO_KEY = -1;

class WireTexts {
  readonly #bytes: Buffer;
  readonly #visitor: TextVisitor;
  readonly #place: MutablePlace = newPlace();
  /** The position behind the varint or field that was read last. */
  #next = 0;
  /** Tag and content start of the field that was read last. */
  #tag = 0;
  #start = 0;
  #keyStart = NO_KEY;
  #keyEnd = NO_KEY;
  #fieldsLeft = MEMBERS_PER_STEP;

  constructor(bytes: Buffer, visitor: TextVisitor) {
    this.#bytes = bytes;
    this.#visitor = visitor;
  }

  /** A message outside attributes; skips spans, except one at which the walk starts. */
  *message(shape: WireMessage, start: number, end: number): TextSteps {
    let p = start;
    while (p < end) {
      const field = shape.fields[this.#read(p)];
      p = this.#next;
      if (this.#endsStep()) yield;
      if (field === undefined || field.message === WIRE_SPAN) continue;
      if (field.message === undefined) {
        this.#text(field.text ?? 'attributes', this.#start, p, NO_KEY, NO_KEY, Mark.NONE);
      } else if (field.message === WIRE_KEY_VALUE) {
        yield* this.#attribute(this.#start, p, shape === WIRE_EVENT);
      } else {
        yield* this.message(field.message, this.#start, p);
      }
    }
  }

  *#attribute(start: number, end: number, isOfEvent: boolean): TextSteps {
    this.#findKey(start, end);
    const { field, within } = keyAt(this.#bytes, this.#keyStart, this.#keyEnd);
    const isEventText = isOfEvent && field !== 'error';
    yield* this.#keyValue(
      start,
      end,
      isEventText ? 'events' : field,
      Mark.NONE,
      isOfEvent ? undefined : within,
    );
  }

  /** A KeyValue; `within` are the keys on the path from here to a kvlist of custom fields. */
  *#keyValue(
    start: number,
    end: number,
    field: TextField,
    markAround: Mark,
    within: readonly string[] | undefined,
  ): TextSteps {
    const keyStart = this.#keyStart;
    const keyEnd = this.#keyEnd;
    const mark = higherMark(this.#visitor.marks?.(keyStart, keyEnd, false), markAround);
    let p = start;
    while (p < end) {
      const number = this.#read(p);
      p = this.#next;
      if (this.#endsStep()) yield;
      if (number === 2) yield* this.#value(this.#start, p, field, keyStart, keyEnd, mark, within);
    }
  }

  /** An AnyValue; visits all repeated fields of its oneof, because all are in the body. */
  *#value(
    start: number,
    end: number,
    field: TextField,
    keyStart: number,
    keyEnd: number,
    mark: Mark,
    within: readonly string[] | undefined,
  ): TextSteps {
    let p = start;
    while (p < end) {
      const number = this.#read(p);
      p = this.#next;
      if (this.#endsStep()) yield;
      if (mark === Mark.ALL) this.#scalar(this.#tag, field, this.#start, p);
      if (number === 1) this.#text(field, this.#start, p, keyStart, keyEnd, mark);
      else if (number === 5) yield* this.#list(this.#start, p, field, keyStart, keyEnd, mark);
      else if (number === 6) yield* this.#keyedList(this.#start, p, field, mark, within);
    }
  }

  /** A field of an AnyValue: its int value, double value or bytes value. */
  #scalar(tag: number, field: TextField, start: number, end: number): void {
    if (tag === 24) {
      this.#visitor.scalar?.({ field, start, end, form: 'varint' });
    } else if (tag === 33 || (tag === 58 && end > start)) {
      this.#visitor.scalar?.({ field, start, end, form: 'bytes' });
    }
  }

  *#list(
    start: number,
    end: number,
    field: TextField,
    keyStart: number,
    keyEnd: number,
    mark: Mark,
  ): TextSteps {
    let p = start;
    while (p < end) {
      const number = this.#read(p);
      p = this.#next;
      if (this.#endsStep()) yield;
      if (number === 1) {
        yield* this.#value(this.#start, p, field, keyStart, keyEnd, mark, undefined);
      }
    }
  }

  *#keyedList(
    start: number,
    end: number,
    field: TextField,
    mark: Mark,
    within: readonly string[] | undefined,
  ): TextSteps {
    let p = start;
    while (p < end) {
      const number = this.#read(p);
      p = this.#next;
      if (this.#endsStep()) yield;
      if (number !== 1) continue;
      const from = this.#start;
      this.#findKey(from, p);
      const isStep =
        within !== undefined && keyAt(this.#bytes, this.#keyStart, this.#keyEnd).text === within[0];
      const rest = isStep && within.length > 1 ? within.slice(1) : undefined;
      const inner = isStep && rest === undefined ? 'custom_fields' : field;
      yield* this.#keyValue(from, p, inner, mark, rest);
    }
  }

  /** Counts a field; true after each few hundred of them. */
  #endsStep(): boolean {
    if (--this.#fieldsLeft > 0) return false;
    this.#fieldsLeft = MEMBERS_PER_STEP;
    return true;
  }

  #text(
    field: TextField,
    start: number,
    end: number,
    keyStart: number,
    keyEnd: number,
    mark: Mark,
  ): void {
    const place = this.#place;
    place.field = field;
    place.start = start;
    place.end = end;
    place.keyStart = keyStart;
    place.keyEnd = keyEnd;
    place.mark = mark;
    this.#visitor.text(place);
  }

  /** Finds the last key of a KeyValue, which may follow the value; an empty range if there is none. */
  #findKey(start: number, end: number): void {
    this.#keyStart = this.#keyEnd = start;
    let p = start;
    while (p < end) {
      const number = this.#read(p);
      p = this.#next;
      if (number !== 1) continue;
      this.#keyStart = this.#start;
      this.#keyEnd = p;
    }
  }

  /**
   * Reads the field at `p`. Returns its number if its wire type is 2, else 0. Its content is at
   * [#start, #next).
   */
  #read(p: number): number {
    const tag = this.#varint(p);
    this.#tag = tag;
    if ((tag & 7) === 2) {
      const length = this.#varint(this.#next);
      this.#start = this.#next;
      this.#next += length;
      return Math.floor(tag / 8);
    }
    const start = this.#next;
    this.#skip(tag, start);
    this.#tag = tag;
    this.#start = start;
    return 0;
  }

  /** Skips the content, at `p`, of a field whose wire type is not 2. */
  #skip(tag: number, p: number): void {
    switch (tag & 7) {
      case 0:
        this.#varint(p);
        break;
      case 1:
        this.#next = p + 8;
        break;
      case 3:
        this.#skipGroup(p);
        break;
      default:
        this.#next = p + 4;
    }
  }

  #skipGroup(start: number): void {
    let p = start;
    for (;;) {
      const tag = this.#varint(p);
      if ((tag & 7) === 4) return;
      if ((tag & 7) === 2) this.#read(p);
      else this.#skip(tag, this.#next);
      p = this.#next;
    }
  }

  #varint(start: number): number {
    let value = 0;
    let scale = 1;
    let p = start;
    for (;;) {
      const byte = this.#bytes[p++] as number;
      value += (byte & 127) * scale;
      if (byte < 128) break;
      scale *= 128;
    }
    this.#next = p;
    return value;
  }
}
