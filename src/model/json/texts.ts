import type { JsonIndex } from '../batch-index.ts';
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
import {
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
} from './grammar.ts';
import { compilePattern, type KeyTable, nodeForAny, type Pattern } from './pattern.ts';
import { itemRange, typeOfByte } from './read.ts';

/** The pattern of a format's items, and the text field of each of its slots. */
export type ItemFields = { readonly pattern: Pattern; readonly fields: readonly TextField[] };

/** The text field of every path. A path without an entry has its parent's field; at the root, `attributes`. */
export function itemFields<Path extends string>(
  pattern: Pattern,
  paths: readonly Path[],
  fields: Readonly<Partial<Record<NoInfer<Path>, TextField>>>,
): ItemFields {
  const fieldOf = (path: string): TextField => {
    const known = fields[path as Path];
    if (known !== undefined) return known;
    const end = path.lastIndexOf('.');
    return end === -1 ? 'attributes' : fieldOf(path.slice(0, end));
  };
  return { pattern, fields: paths.map(fieldOf) };
}

/** `FormatModule.texts` for native events and runs. */
export function* itemTexts(
  { pattern, fields }: ItemFields,
  index: JsonIndex,
  position: number,
  visitor: TextVisitor,
): TextSteps {
  const walk = new TextWalk(index.bytes, visitor);
  const [start] = itemRange(index, position);
  if (index.bytes[start] === OPEN_BRACE) {
    yield* walk.object(start, 'attributes', Mark.NONE, { keys: pattern.root, fields });
  } else {
    yield* walk.value(start, 'attributes', NO_KEY, NO_KEY, Mark.NONE);
  }
}

/**
 * `FormatModule.sharedTexts` for native events and runs: everything around the items, as `metadata`. Items that
 * a repeated key of the root shadows are in the body but not in the index, so their texts are shared texts.
 */
export function* rootTexts(index: JsonIndex, visitor: TextVisitor): TextSteps {
  const items = new Map<number, number>();
  for (let position = 0; position < index.count; position++) {
    items.set(...itemRange(index, position));
  }
  const walk = new TextWalk(index.bytes, visitor, items);
  yield* walk.object(spaceFrom(walk.json, 0), 'metadata', Mark.NONE, ROOT);
}

/** The arrays of items. */
const ROOT: KnownKeys = {
  keys: compilePattern(['events', 'post', 'patch'], []).root,
  fields: ['metadata', 'metadata', 'metadata'],
};

const NO_KEY = -1;

/** Keys of an object, and the fields of their values by slot. */
type KnownKeys = { readonly keys: KeyTable; readonly fields: readonly TextField[] };

/** Steps of a walk over a value, which return its end. */
export type ValueSteps = Generator<undefined, number>;

/**
 * One walk over scanned JSON. Recursion is as deep as the nesting, which the scanner bounds. Only objects and
 * arrays have a generator of their own.
 */
export class TextWalk {
  readonly json: Text;
  readonly #visitor: TextVisitor;
  readonly #skipped: ReadonlyMap<number, number> | undefined;
  readonly #place: MutablePlace = newPlace();
  #membersLeft = MEMBERS_PER_STEP;

  /** `skipped` maps the starts of array elements that the walk skips to their ends. */
  constructor(bytes: Buffer, visitor: TextVisitor, skipped?: ReadonlyMap<number, number>) {
    this.json = textOf(bytes, Number.MAX_SAFE_INTEGER);
    this.#visitor = visitor;
    this.#skipped = skipped;
  }

  /** Visits the texts of the value at `start`; returns its end. */
  *value(
    start: number,
    field: TextField,
    keyStart: number,
    keyEnd: number,
    mark: Mark,
  ): ValueSteps {
    switch (this.json.bytes[start]) {
      case OPEN_BRACE:
        return yield* this.object(start, field, mark, undefined);
      case OPEN_BRACKET:
        return yield* this.#array(start, field, keyStart, keyEnd, mark);
      default:
        return this.leaf(start, field, keyStart, keyEnd, mark);
    }
  }

  /** Visits a value that is neither object nor array; returns its end. */
  leaf(start: number, field: TextField, keyStart: number, keyEnd: number, mark: Mark): number {
    return this.json.bytes[start] === QUOTE
      ? this.string(start, field, keyStart, keyEnd, mark)
      : this.scalar(start, field, mark);
  }

  isContainer(start: number): boolean {
    const first = this.json.bytes[start];
    return first === OPEN_BRACE || first === OPEN_BRACKET;
  }

  /** Counts a member; true after each few hundred of them. */
  endsStep(): boolean {
    if (--this.#membersLeft > 0) return false;
    this.#membersLeft = MEMBERS_PER_STEP;
    return true;
  }

  /** A number, `true`, `false` or `null`, or a quoted number or byte sequence. */
  scalar(start: number, field: TextField, mark: Mark): number {
    const { json } = this;
    const first = json.bytes[start];
    const end = first === QUOTE ? skipString(json, start + 1) : skipScalar(json, start);
    if (mark === Mark.ALL && this.#visitor.scalar !== undefined) {
      const type = typeOfByte(first);
      const isEmpty = first === QUOTE && end === start + 2;
      if ((type === 'number' || type === 'string') && !isEmpty) {
        this.#visitor.scalar({ field, start, end, form: 'json' });
      }
    }
    return end;
  }

  string(start: number, field: TextField, keyStart: number, keyEnd: number, mark: Mark): number {
    const { json } = this;
    const place = this.#place;
    const escapes = json.escapes;
    const end = skipString(json, start + 1);
    place.field = field;
    place.start = start + 1;
    place.end = end - 1;
    place.isEscaped = json.escapes !== escapes;
    place.keyStart = keyStart;
    place.keyEnd = keyEnd;
    place.mark = mark;
    this.#visitor.text(place);
    return end;
  }

  *object(start: number, field: TextField, mark: Mark, known: KnownKeys | undefined): ValueSteps {
    const { json } = this;
    const { bytes } = json;
    let at = spaceFrom(json, start + 1);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    for (;;) {
      const keyStart = at + 1;
      at = skipString(json, keyStart);
      const keyEnd = at - 1;
      const node =
        known === undefined ? undefined : nodeForAny(known.keys, bytes, keyStart, keyEnd);
      const markHere = this.marks(keyStart, keyEnd, mark, node !== undefined);
      at = skipColon(json, at);
      const inner = node === undefined ? field : (known?.fields[node.slot] ?? field);
      if (known !== undefined && node?.children !== undefined && bytes[at] === OPEN_BRACE) {
        const { fields } = known;
        at = yield* this.object(at, inner, markHere, { keys: node.children, fields });
      } else if (this.isContainer(at)) {
        at = yield* this.value(at, inner, keyStart, keyEnd, markHere);
      } else {
        at = this.leaf(at, inner, keyStart, keyEnd, markHere);
      }
      if (this.endsStep()) yield;
      at = spaceFrom(json, at);
      if (bytes[at] === CLOSE_BRACE) return at + 1;
      at = spaceFrom(json, at + 1);
    }
  }

  /** The mark of a key in a value whose mark is `around`. */
  marks(keyStart: number, keyEnd: number, around: Mark, isFixed: boolean): Mark {
    return higherMark(this.#visitor.marks?.(keyStart, keyEnd, isFixed), around);
  }

  *#array(
    start: number,
    field: TextField,
    keyStart: number,
    keyEnd: number,
    mark: Mark,
  ): ValueSteps {
    const { json } = this;
    const { bytes } = json;
    let at = spaceFrom(json, start + 1);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    for (;;) {
      const skippedTo = this.#skipped?.get(at);
      if (skippedTo !== undefined) at = skippedTo;
      else if (this.isContainer(at)) at = yield* this.value(at, field, keyStart, keyEnd, mark);
      else at = this.leaf(at, field, keyStart, keyEnd, mark);
      if (this.endsStep()) yield;
      at = spaceFrom(json, at);
      if (bytes[at] === CLOSE_BRACKET) return at + 1;
      at = spaceFrom(json, at + 1);
    }
  }
}
