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

/**
 * The most fields of a request that is merged. A field may have two bytes, so that those of a body of 25 MiB would take the scan thread
 * seconds. A request of ten thousand spans with twenty attributes has less than a million.
 */
export const MAX_MERGED_FIELDS = 2_000_000;

/** A request has more fields than may be merged. */
export class TooManyFields extends Refusal {
  constructor(maxFields: number) {
    super(
      'invalid_request',
      `The body repeats messages that protobuf merges, and has more than ${maxFields} fields.`,
    );
  }
}

/**
 * The scanned request with each message once that its message has once. Encoders do not repeat them, but messages that are joined
 * byte by byte do, and protobuf defines that such messages merge: repeated fields append, of others the last one counts. Of a oneof, the
 * last member counts, and merges with those of its kind right before it. Throws `TooManyFields` rather than leave it unmerged: such a
 * request would hold texts that no processor sees.
 *
 * In linear time: one walk measures the messages, the next one writes them. The result is at most as long as the request.
 */
export function mergeRepeated(
  bytes: Buffer,
  items: keyof typeof REQUESTS,
  maxFields: number,
): Buffer {
  const measuring = new Measuring(maxFields);
  new Walk(bytes, measuring).message(REQUESTS[items], new Parts(0, bytes.length));
  const writing = new Writing(bytes, measuring.lengths, measuring.length);
  new Walk(bytes, writing).message(REQUESTS[items], new Parts(0, bytes.length));
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

/** The contents of one message, in their order. Numbers, because a message may be repeated as often as a request has fields. */
class Parts {
  /** The start of each content, followed by its end. */
  readonly #edges: number[];

  constructor(start: number, end: number) {
    this.#edges = [start, end];
  }

  get count(): number {
    return this.#edges.length / 2;
  }

  start(part: number): number {
    return this.#edges[part * 2] ?? 0;
  }

  end(part: number): number {
    return this.#edges[part * 2 + 1] ?? 0;
  }

  add(start: number, end: number): void {
    this.#edges.push(start, end);
  }
}

const VALUES: ReadonlyMap<number, Shape | undefined> = new Map([
  ...[10, 16, 24, 33, 58].map((tag) => [tag, undefined] as const),
  [42, ARRAY],
  [50, KVLIST],
]);

/** Visits the fields of a request with one reader: a reader for each message would be most of the work. */
class Walk {
  readonly #reader: WireReader;
  readonly #sink: Sink;

  constructor(bytes: Buffer, sink: Sink) {
    this.#reader = new WireReader(bytes, 0, bytes.length);
    this.#sink = sink;
  }

  /** The reader is anywhere afterwards. */
  message(shape: Shape, parts: Parts): void {
    if (shape.isValue === true) this.#value(parts);
    else this.#fields(shape, parts);
  }

  #fields({ repeated, single }: Shape, parts: Parts): void {
    const reader = this.#reader;
    let singles: Parts | undefined;
    for (let part = 0; part < parts.count; part++) {
      const end = parts.end(part);
      reader.moveTo(parts.start(part));
      for (let from = reader.start; from < end; from = reader.start) {
        this.#sink.read();
        const tag = reader.nextTag();
        const nested = repeated.get(tag);
        if (nested === undefined && tag !== single?.tag) {
          reader.skip();
          this.#sink.copy(from, reader.start);
          continue;
        }
        const start = reader.skipMessage();
        const next = reader.start;
        if (nested !== undefined) {
          this.#nested(tag, nested, new Parts(start, next));
          reader.moveTo(next);
        } else if (singles === undefined) singles = new Parts(start, next);
        else singles.add(start, next);
      }
    }
    if (single !== undefined && singles !== undefined) {
      this.#nested(single.tag, single.shape, singles);
    }
  }

  #nested(tag: number, shape: Shape, parts: Parts): void {
    this.#sink.open(tag);
    this.message(shape, parts);
    this.#sink.close();
  }

  /** Writes the last member of the oneof. Fields without a meaning stay. */
  #value(parts: Parts): void {
    const reader = this.#reader;
    let member = 0;
    let members: Parts | undefined;
    for (let part = 0; part < parts.count; part++) {
      const end = parts.end(part);
      reader.moveTo(parts.start(part));
      for (let from = reader.start; from < end; from = reader.start) {
        this.#sink.read();
        const tag = reader.nextTag();
        const isList = VALUES.get(tag) !== undefined;
        const start = isList ? reader.skipMessage() : from;
        if (!isList) reader.skip();
        if (!VALUES.has(tag)) this.#sink.copy(from, reader.start);
        else if (isList && tag === member) members?.add(start, reader.start);
        else members = new Parts(start, reader.start);
        if (VALUES.has(tag)) member = tag;
      }
    }
    if (members === undefined) return;
    const list = VALUES.get(member);
    if (list !== undefined) this.#nested(member, list, members);
    else this.#sink.copy(members.start(0), members.end(0));
  }
}

type Opened = { readonly place: number; readonly tag: number; readonly before: number };

/** The lengths of the messages, in the order of their opening. */
class Measuring implements Sink {
  readonly lengths: number[] = [];
  length = 0;
  #fields = 0;
  readonly #maxFields: number;
  readonly #open: Opened[] = [];

  constructor(maxFields: number) {
    this.#maxFields = maxFields;
  }

  read(): void {
    if (++this.#fields > this.#maxFields) throw new TooManyFields(this.#maxFields);
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
