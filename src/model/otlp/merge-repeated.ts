import { Refusal } from '../errors.ts';
import { WireReader } from './wire.ts';

/** A message by the tags of its nested messages. */
type Shape = {
  readonly repeated: ReadonlyMap<number, Shape>;
  /** The nested message that it has once. */
  readonly single?: { readonly tag: number; readonly shape: Shape };
  /** It is an AnyValue, with a oneof. */
  readonly isValue?: true;
};

const PLAIN: Shape = { repeated: new Map() };
const ANY_VALUE: Shape = { repeated: new Map(), isValue: true };
const KEY_VALUE: Shape = { repeated: new Map(), single: { tag: 18, shape: ANY_VALUE } };
const attributed = (tag: number): Shape => ({ repeated: new Map([[tag, KEY_VALUE]]) });
const ARRAY: Shape = { repeated: new Map([[10, ANY_VALUE]]) };
const KVLIST = attributed(10);

const SPAN: Shape = {
  repeated: new Map([
    [74, KEY_VALUE],
    [90, attributed(26)],
    [106, attributed(34)],
  ]),
  single: { tag: 122, shape: PLAIN },
};
const LOG_RECORD: Shape = { ...attributed(50), single: { tag: 42, shape: ANY_VALUE } };

function requestOf(item: Shape): Shape {
  const scope = { tag: 10, shape: attributed(26) };
  const ofScope: Shape = { repeated: new Map([[18, item]]), single: scope };
  const resource = { tag: 10, shape: attributed(10) };
  const ofResource: Shape = { repeated: new Map([[18, ofScope]]), single: resource };
  return { repeated: new Map([[10, ofResource]]) };
}

const REQUESTS = { spans: requestOf(SPAN), logRecords: requestOf(LOG_RECORD) };

type Range = { readonly start: number; readonly end: number };

/**
 * The most fields of a request that is merged. A field may have two bytes, and takes more than forty in memory: a body of 25 MiB would
 * take a gigabyte. A request of ten thousand spans with twenty attributes has less than a million.
 */
export const MAX_MERGED_FIELDS = 2_000_000;

/**
 * The scanned request with each message once that its message has once. Encoders do not repeat them, but messages that are joined
 * byte by byte do, and protobuf defines that such messages merge: repeated fields append, of others the last one counts. Of a oneof, the
 * last member counts, and merges with those of its kind right before it. Throws a `Refusal` if there are too many fields: unmerged, the
 * request would hold texts that no processor sees.
 *
 * In linear time: one walk measures the messages, the next one writes them.
 */
export function mergeRepeated(bytes: Buffer, items: keyof typeof REQUESTS): Buffer {
  const whole = [{ start: 0, end: bytes.length }];
  const measuring = new Measuring();
  walk(bytes, REQUESTS[items], whole, measuring);
  const writing = new Writing(bytes, measuring.lengths, measuring.length);
  walk(bytes, REQUESTS[items], whole, writing);
  return writing.target;
}

/** Gets the parts of the merged request in their order. */
type Sink = {
  /** A field of the request that is merged. */
  read(): void;
  copy(start: number, end: number): void;
  open(tag: number): void;
  close(): void;
};

/** `parts` are the contents of one message, in their order. */
function walk(bytes: Buffer, shape: Shape, parts: readonly Range[], sink: Sink): void {
  if (shape.isValue === true) {
    walkValue(bytes, parts, sink);
    return;
  }
  const singles: Range[] = [];
  for (const { start, end } of parts) {
    const reader = new WireReader(bytes, start, end);
    for (let from = start; from < end; from = reader.start) {
      sink.read();
      const tag = reader.nextTag();
      const nested = shape.repeated.get(tag);
      const isSingle = tag === shape.single?.tag;
      const content = nested !== undefined || isSingle ? rangeOf(reader.message()) : undefined;
      if (content === undefined) {
        reader.skip();
        sink.copy(from, reader.start);
      } else if (nested === undefined) singles.push(content);
      else walkNested(bytes, tag, nested, [content], sink);
    }
  }
  if (shape.single === undefined || singles.length === 0) return;
  walkNested(bytes, shape.single.tag, shape.single.shape, singles, sink);
}

function walkNested(
  bytes: Buffer,
  tag: number,
  shape: Shape,
  parts: readonly Range[],
  sink: Sink,
): void {
  sink.open(tag);
  walk(bytes, shape, parts, sink);
  sink.close();
}

const VALUES: ReadonlyMap<number, Shape | undefined> = new Map([
  ...[10, 16, 24, 33, 58].map((tag) => [tag, undefined] as const),
  [42, ARRAY],
  [50, KVLIST],
]);

/** Writes the last member of the oneof. Fields without a meaning stay. */
function walkValue(bytes: Buffer, parts: readonly Range[], sink: Sink): void {
  let member = 0;
  let ranges: Range[] = [];
  for (const { start, end } of parts) {
    const reader = new WireReader(bytes, start, end);
    for (let from = start; from < end; from = reader.start) {
      sink.read();
      const tag = reader.nextTag();
      const shape = VALUES.get(tag);
      if (shape !== undefined) {
        if (tag !== member) ranges = [];
        ranges.push(rangeOf(reader.message()));
      } else {
        reader.skip();
        if (VALUES.has(tag)) ranges = [{ start: from, end: reader.start }];
        else sink.copy(from, reader.start);
      }
      if (VALUES.has(tag)) member = tag;
    }
  }
  const shape = VALUES.get(member);
  if (shape !== undefined) walkNested(bytes, member, shape, ranges, sink);
  else for (const { start, end } of ranges) sink.copy(start, end);
}

function rangeOf({ start, end }: WireReader): Range {
  return { start, end };
}

type Opened = { readonly place: number; readonly tag: number; readonly before: number };

/** The lengths of the messages, in the order of their opening. */
class Measuring implements Sink {
  readonly lengths: number[] = [];
  length = 0;
  #fields = 0;
  readonly #open: Opened[] = [];

  read(): void {
    if (++this.#fields <= MAX_MERGED_FIELDS) return;
    throw new Refusal(
      'invalid_request',
      `The body repeats messages that protobuf merges, and has more than ${MAX_MERGED_FIELDS} fields.`,
    );
  }

  copy(start: number, end: number): void {
    this.length += end - start;
  }

  open(tag: number): void {
    this.#open.push({ place: this.lengths.length, tag, before: this.length });
    this.lengths.push(0);
    this.length = 0;
  }

  close(): void {
    const { place, tag, before } = this.#open.pop() as Opened;
    this.lengths[place] = this.length;
    this.length += before + lengthOfVarint(tag) + lengthOfVarint(this.length);
  }
}

class Writing implements Sink {
  readonly target: Buffer;
  readonly #bytes: Buffer;
  readonly #lengths: readonly number[];
  #next = 0;
  #at = 0;

  constructor(bytes: Buffer, lengths: readonly number[], length: number) {
    this.#bytes = bytes;
    this.#lengths = lengths;
    this.target = Buffer.allocUnsafeSlow(length);
  }

  read(): void {}

  copy(start: number, end: number): void {
    this.#at += this.#bytes.copy(this.target, this.#at, start, end);
  }

  open(tag: number): void {
    this.#varint(tag);
    this.#varint(this.#lengths[this.#next++] ?? 0);
  }

  close(): void {}

  #varint(value: number): void {
    let rest = value;
    for (; rest > 127; rest = Math.floor(rest / 128)) this.target[this.#at++] = (rest % 128) | 128;
    this.target[this.#at++] = rest;
  }
}

function lengthOfVarint(value: number): number {
  let length = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) length++;
  return length;
}
