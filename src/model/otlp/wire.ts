import { keyAt } from './keys.ts';

/** The most nested arrays and kvlists of an attribute's value. */
export const MAX_VALUE_DEPTH = 100;
export const MAX_VARINT_BYTES = 10;
/** The most nested groups. */
export const MAX_GROUP_DEPTH = 100;

/**
 * Reads the fields of a scanned protobuf message; it checks no bounds. The hot paths have their own loops.
 */
export class WireReader {
  readonly bytes: Buffer;
  readonly end: number;
  #p: number;
  #tag = 0;

  constructor(bytes: Buffer, start: number, end: number) {
    this.bytes = bytes;
    this.#p = start;
    this.end = end;
  }

  /** The tag of the next field (its number times 8 plus its wire type), or 0 at the end. */
  nextTag(): number {
    if (this.#p >= this.end) return 0;
    this.#tag = this.varint();
    return this.#tag;
  }

  skip(): void {
    switch (this.#tag & 7) {
      case 0:
        this.varint();
        break;
      case 1:
        this.#p += 8;
        break;
      case 2:
        this.message();
        break;
      case 3:
        this.#skipGroup();
        break;
      default:
        this.#p += 4;
    }
  }

  #skipGroup(): void {
    for (;;) {
      this.#tag = this.varint();
      if ((this.#tag & 7) === 4) return;
      this.skip();
    }
  }

  /** A varint as a number, rounded above 2^53. */
  varint(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.#p++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  uint32(): number {
    const first = this.bytes[this.#p] ?? 0;
    if (first < 128) {
      this.#p++;
      return first;
    }
    return Number(BigInt.asUintN(32, this.#bigVarint()));
  }

  /** An enumeration's number, which is signed: a negative one has ten bytes. */
  int32(): number {
    return this.uint32() | 0;
  }

  /** An exact signed 64-bit integer. */
  int64(): bigint {
    return BigInt.asIntN(64, this.#bigVarint());
  }

  /** The digits of a signed 64-bit integer. */
  int64Text(): string {
    const start = this.#p;
    const value = this.varint();
    // Seven bytes have 49 bits, which a number has exactly.
    if (this.#p - start <= 7) return String(value);
    this.#p = start;
    return String(this.int64());
  }

  #bigVarint(): bigint {
    let value = 0n;
    let shift = 0n;
    for (;;) {
      const byte = this.bytes[this.#p++] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  }

  fixed32(): number {
    this.#p += 4;
    return this.bytes.readUInt32LE(this.#p - 4);
  }

  fixed64(): bigint {
    this.#p += 8;
    return this.bytes.readBigUInt64LE(this.#p - 8);
  }

  double(): number {
    this.#p += 8;
    return this.bytes.readDoubleLE(this.#p - 8);
  }

  /** A reader of the nested message, string or byte sequence. */
  message(): WireReader {
    const start = this.#skipBytes();
    return new WireReader(this.bytes, start, this.#p);
  }

  /** A text that is the key of an attribute; no string is made of a known one. */
  key(): string {
    const start = this.#skipBytes();
    return keyAt(this.bytes, start, this.#p).text;
  }

  text(): string {
    const start = this.#skipBytes();
    return this.bytes.toString('utf8', start, this.#p);
  }

  hex(): string {
    const start = this.#skipBytes();
    return this.bytes.toString('hex', start, this.#p);
  }

  base64(): string {
    const start = this.#skipBytes();
    return this.bytes.toString('base64', start, this.#p);
  }

  /** Skips a field of wire type 2, and returns where its content starts. */
  #skipBytes(): number {
    const length = this.varint();
    const start = this.#p;
    this.#p += length;
    return start;
  }

  /** As `message`, without a reader of its own: returns where the content starts. It ends where the next field starts. */
  skipMessage(): number {
    return this.#skipBytes();
  }

  moveTo(position: number): void {
    this.#p = position;
  }

  /** The current position, at first the start of the message. */
  get start(): number {
    return this.#p;
  }
}

/** The shortest varint of a number up to 2^53. */
export function varintBytes(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** A field of wire type 2: tag, length and content. */
export function lengthDelimited(tag: number, content: Uint8Array): Buffer {
  return Buffer.concat([varintBytes(tag), varintBytes(content.length), content]);
}
