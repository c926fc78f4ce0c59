import { type AttributeKey, attributeKey } from '../attributes.ts';
import type { OtlpIndex } from '../batch-index.ts';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipScalar,
  skipString,
  spaceFrom,
  type Text,
  textOf,
} from '../json/grammar.ts';
import { stringIn } from '../json/read.ts';
import { TextWalk, type ValueSteps } from '../json/texts.ts';
import { repeatedTextAt } from '../repeated-text.ts';
import {
  Mark,
  MEMBERS_PER_STEP,
  type TextField,
  type TextSteps,
  type TextVisitor,
} from '../texts.ts';
import { spanField } from './context.ts';
import { OtlpField } from './fields.ts';
import { EVENT, type Field, KEY_VALUE, type Message, REQUEST, SPAN } from './json-shape.ts';
import { keyAt } from './keys.ts';

/** `FormatModule.texts` for OTLP in JSON. Quoted numbers and byte sequences are no texts. */
export function* jsonTexts(index: OtlpIndex, position: number, visitor: TextVisitor): TextSteps {
  const start = spanField(index, position, OtlpField.START);
  const late = yield* lateKeysOf(index, start);
  yield* new JsonTexts(index, late, visitor).message(start, SPAN, AROUND);
}

/**
 * `FormatModule.sharedTexts`: of resources, scopes, schema URLs, unknown members, and spans that a repeated key
 * shadows.
 */
export function* sharedJsonTexts(index: OtlpIndex, visitor: TextVisitor): TextSteps {
  const spans = new Map<number, number>();
  for (let position = 0; position < index.count; position++) {
    spans.set(
      spanField(index, position, OtlpField.START),
      spanField(index, position, OtlpField.END),
    );
  }
  const start = spaceFrom(textOf(index.bytes), 0);
  const late = yield* lateKeysOf(index, start);
  yield* new JsonTexts(index, late, visitor, spans).message(start, REQUEST, AROUND);
}

/** Properties that a message inherits from the attribute or event around it. */
type Around = {
  readonly field: TextField;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly mark: Mark;
  /** Keys on the path from here to a kvlist of custom fields. */
  readonly within: readonly string[] | undefined;
  /** The message is within the value of an attribute. */
  readonly isValue: boolean;
  readonly isEvent: boolean;
};

const AROUND: Around = {
  field: 'attributes',
  keyStart: -1,
  keyEnd: -1,
  mark: Mark.NONE,
  within: undefined,
  isValue: false,
  isEvent: false,
};
const AROUND_EVENT: Around = { ...AROUND, field: 'events', isEvent: true };

class JsonTexts {
  readonly #walk: TextWalk;
  readonly #json: Text;
  readonly #skipped: ReadonlyMap<number, number> | undefined;
  readonly #lateKeys: LateKeys | undefined;

  constructor(
    index: OtlpIndex,
    lateKeys: LateKeys | undefined,
    visitor: TextVisitor,
    skipped?: ReadonlyMap<number, number>,
  ) {
    this.#walk = new TextWalk(index.bytes, visitor);
    this.#json = this.#walk.json;
    this.#skipped = skipped;
    this.#lateKeys = lateKeys;
  }

  /** Visits the texts of a message; returns its end. */
  *message(start: number, shape: Message, around: Around): ValueSteps {
    const json = this.#json;
    const { bytes } = json;
    if (bytes[start] !== OPEN_BRACE) return skipScalar(json, start);
    const inner = this.#inner(start, shape, around);
    let at = spaceFrom(json, start + 1);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    for (;;) {
      const keyStart = at + 1;
      at = skipString(json, keyStart);
      const keyEnd = at - 1;
      at = skipColon(json, at);
      const field = shape.fields.get(this.#name(keyStart, keyEnd));
      if (field === undefined) {
        const mark = this.#walk.marks(keyStart, keyEnd, inner.mark, false);
        at = yield* this.#walk.value(at, inner.field, keyStart, keyEnd, mark);
      } else if (this.#walk.isContainer(at)) {
        at = yield* this.#container(at, field, inner);
      } else {
        at = this.#leaf(at, field, inner);
      }
      if (this.#walk.endsStep()) yield;
      at = spaceFrom(json, at);
      if (bytes[at] === CLOSE_BRACE) return at + 1;
      at = spaceFrom(json, at + 1);
    }
  }

  *#container(start: number, field: Field, around: Around): ValueSteps {
    if (typeof field.type === 'string') return this.#scalar(start, field, around);
    const isList = this.#json.bytes[start] === OPEN_BRACKET;
    if (isList) return yield* this.#list(start, field.type, around);
    return yield* this.message(start, field.type, around);
  }

  #leaf(start: number, field: Field, around: Around): number {
    const json = this.#json;
    if (json.bytes[start] === QUOTE && field.text !== undefined) {
      const text = field.text === 'value' ? around.field : field.text;
      const { keyStart, keyEnd, mark } = around;
      return this.#walk.string(start, text, keyStart, keyEnd, mark);
    }
    if (json.bytes[start] === QUOTE || typeof field.type === 'string') {
      return this.#scalar(start, field, around);
    }
    return skipScalar(json, start);
  }

  /** A number, byte sequence, boolean or null, or the key of an attribute. */
  #scalar(start: number, { type }: Field, around: Around): number {
    const isValue = type === 'int64' || type === 'double' || type === 'bytes';
    return this.#walk.scalar(start, around.field, isValue ? around.mark : Mark.NONE);
  }

  *#list(start: number, shape: Message, around: Around): ValueSteps {
    const json = this.#json;
    const { bytes } = json;
    // No array is on the path to custom fields.
    const inner =
      shape === KEY_VALUE || around.within === undefined
        ? around
        : { ...around, within: undefined };
    let at = spaceFrom(json, start + 1);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    for (;;) {
      at = this.#skipped?.get(at) ?? (yield* this.message(at, shape, inner));
      if (this.#walk.endsStep()) yield;
      at = spaceFrom(json, at);
      if (bytes[at] === CLOSE_BRACKET) return at + 1;
      at = spaceFrom(json, at + 1);
    }
  }

  #inner(start: number, shape: Message, around: Around): Around {
    if (shape === EVENT) return AROUND_EVENT;
    if (shape !== KEY_VALUE) return around;
    const [keyStart, keyEnd] = this.#keyOf(start);
    const mark = this.#walk.marks(keyStart, keyEnd, around.mark, false);
    const key = this.#attributeKey(keyStart, keyEnd);
    const { isEvent, within } = around;
    const place = { keyStart, keyEnd, mark, isEvent, isValue: true };
    if (around.isValue) {
      const isStep = within !== undefined && key.text === within[0];
      const rest = isStep && within.length > 1 ? within.slice(1) : undefined;
      const field = isStep && rest === undefined ? 'custom_fields' : around.field;
      return { ...place, field, within: rest };
    }
    if (!isEvent) return { ...place, field: key.field, within: key.within };
    return { ...place, field: key.field === 'error' ? 'error' : 'events', within: undefined };
  }

  /** The key of a KeyValue object, usually its first member; an empty range if it has none. */
  #keyOf(start: number): KeyRange {
    const late = this.#lateKeys?.get(start);
    if (late !== undefined) return late;
    const json = this.#json;
    const nameStart = spaceFrom(json, start + 1) + 1;
    if (json.bytes[nameStart - 1] === QUOTE) {
      const nameEnd = skipString(json, nameStart);
      const valueStart = skipColon(json, nameEnd);
      if (json.bytes[valueStart] === QUOTE && this.#name(nameStart, nameEnd - 1) === 'key') {
        return [valueStart + 1, skipString(json, valueStart + 1) - 1];
      }
    }
    return [start + 1, start + 1];
  }

  #attributeKey(start: number, end: number): AttributeKey {
    const { bytes } = this.#json;
    return bytes.subarray(start, end).includes(BACKSLASH)
      ? attributeKey(stringIn(bytes, start - 1, end + 1))
      : keyAt(bytes, start, end);
  }

  #name(start: number, end: number): string {
    const { bytes } = this.#json;
    const text = repeatedTextAt(bytes, start, end);
    return text.includes('\\') ? stringIn(bytes, start - 1, end + 1) : text;
  }
}

type KeyRange = readonly [start: number, end: number];

/** The last `key` of every object whose `key` follows another member, by the object's start. */
type LateKeys = ReadonlyMap<number, KeyRange>;

function* lateKeysOf(index: OtlpIndex, start: number): Generator<undefined, LateKeys | undefined> {
  if (index.lateKeys !== true) return undefined;
  const search = new LateKeySearch(index.bytes);
  yield* search.value(start);
  return search.found;
}

/** One pass for all objects: looking ahead in every object would cost a pass for each level of nesting. */
class LateKeySearch {
  readonly found = new Map<number, KeyRange>();
  readonly #json: Text;
  #membersLeft = MEMBERS_PER_STEP;

  constructor(bytes: Buffer) {
    this.#json = textOf(bytes, Number.MAX_SAFE_INTEGER);
  }

  /** Searches the value at `start`; returns its end. */
  *value(start: number): ValueSteps {
    if (--this.#membersLeft === 0) {
      this.#membersLeft = MEMBERS_PER_STEP;
      yield;
    }
    switch (this.#json.bytes[start]) {
      case OPEN_BRACE:
        return yield* this.#object(start);
      case OPEN_BRACKET:
        return yield* this.#array(start);
      case QUOTE:
        return skipString(this.#json, start + 1);
      default:
        return skipScalar(this.#json, start);
    }
  }

  *#object(start: number): ValueSteps {
    const json = this.#json;
    const { bytes } = json;
    let at = spaceFrom(json, start + 1);
    const first = at;
    while (bytes[at] !== CLOSE_BRACE) {
      const nameStart = bytes[at] === QUOTE ? at : spaceFrom(json, at + 1);
      const nameEnd = skipString(json, nameStart + 1);
      const valueStart = skipColon(json, nameEnd);
      at = yield* this.value(valueStart);
      const isKey = bytes[valueStart] === QUOTE && isNamedKey(bytes, nameStart, nameEnd);
      if (isKey && nameStart !== first) this.found.set(start, [valueStart + 1, at - 1]);
      at = spaceFrom(json, at);
    }
    return at + 1;
  }

  *#array(start: number): ValueSteps {
    const json = this.#json;
    let at = spaceFrom(json, start + 1);
    if (json.bytes[at] === CLOSE_BRACKET) return at + 1;
    for (;;) {
      at = spaceFrom(json, yield* this.value(at));
      if (json.bytes[at] === CLOSE_BRACKET) return at + 1;
      at = spaceFrom(json, at + 1);
    }
  }
}

/** Whether the string with its quotes at [start,end) is `key`, in one of its spellings. */
function isNamedKey(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start - 2;
  return (length === 3 || length >= 8) && length <= 18 && stringIn(bytes, start, end) === 'key';
}
