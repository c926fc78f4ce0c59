import type { OtlpIndex } from '../batch-index.ts';
import type { Splice } from '../texts.ts';
import { varintBytes, WireReader } from './wire.ts';
import { WIRE_REQUEST, type WireMessage } from './wire-shape.ts';

/**
 * `FormatModule.splice` for protobuf. A splice is either within the content of one string or byte sequence,
 * or replaces whole fields of one message. An empty range belongs to the innermost field that it touches.
 * The lengths of the messages around a splice are encoded again, unless they stay the same.
 */
export function spliceWire({ bytes }: OtlpIndex, splices: readonly Splice[]): Buffer {
  return new WireSplicer(bytes, splices).result();
}

class WireSplicer {
  readonly #bytes: Buffer;
  readonly #splices: readonly Splice[];
  readonly #pieces: Uint8Array[] = [];
  /** Bytes in `#pieces`. */
  #length = 0;
  /** Splices that have been applied. */
  #applied = 0;

  constructor(bytes: Buffer, splices: readonly Splice[]) {
    this.#bytes = bytes;
    this.#splices = splices;
  }

  result(): Buffer {
    this.#content(WIRE_REQUEST, 0, this.#bytes.length);
    if (this.#applied < this.#splices.length) throw misplaced();
    return Buffer.concat(this.#pieces, this.#length);
  }

  /** Writes the content of a message, or of a string, which has no shape. */
  #content(shape: WireMessage | undefined, start: number, end: number): void {
    let copied = shape === undefined ? start : this.#fields(shape, start, end);
    for (let splice = this.#splice; splice !== undefined && splice.end <= end; ) {
      copied = this.#apply(splice, copied);
      splice = this.#splice;
    }
    this.#copy(copied, end);
  }

  /** Applies the splices in the fields of a message; returns the position up to which bytes are written. */
  #fields(shape: WireMessage, start: number, end: number): number {
    const reader = new WireReader(this.#bytes, start, end);
    let copied = start;
    while (reader.start < end && this.#splice !== undefined && this.#splice.start <= end) {
      const fieldStart = reader.start;
      const tag = reader.nextTag();
      const lengthStart = reader.start;
      const content = (tag & 7) === 2 ? reader.message() : undefined;
      if (content === undefined) reader.skip();
      const fieldEnd = reader.start;
      if (copied > fieldStart) {
        if (copied < fieldEnd) throw misplaced();
        continue;
      }
      const splice = this.#splice;
      if (content !== undefined && splice.start >= content.start && splice.end <= content.end) {
        const child = shape.fields[Math.floor(tag / 8)]?.message;
        this.#copy(copied, lengthStart);
        this.#withLength(child, lengthStart, content);
        copied = fieldEnd;
      } else if (splice.start < fieldEnd) {
        if (splice.start !== fieldStart) throw misplaced();
        copied = this.#apply(splice, copied);
        if (copied < fieldEnd) throw misplaced();
      }
    }
    return copied;
  }

  /** Writes the content of a field behind its new length. */
  #withLength(child: WireMessage | undefined, lengthStart: number, content: WireReader): void {
    const { start, end } = content;
    const place = this.#pieces.length;
    this.#pieces.push(EMPTY);
    const before = this.#length;
    this.#content(child, start, end);
    const length = this.#length - before;
    const prefix =
      length === end - start ? this.#bytes.subarray(lengthStart, start) : varintBytes(length);
    this.#pieces[place] = prefix;
    this.#length += prefix.length;
  }

  get #splice(): Splice | undefined {
    return this.#splices[this.#applied];
  }

  #apply(splice: Splice, copied: number): number {
    if (splice.start < copied || splice.end < splice.start) throw misplaced();
    this.#copy(copied, splice.start);
    this.#pieces.push(splice.bytes);
    this.#length += splice.bytes.length;
    this.#applied++;
    return splice.end;
  }

  #copy(start: number, end: number): void {
    if (start === end) return;
    this.#pieces.push(this.#bytes.subarray(start, end));
    this.#length += end - start;
  }
}

const EMPTY = new Uint8Array(0);

function misplaced(): RangeError {
  return new RangeError('Splices overlap, are not in order, or cut a field.');
}
