const MAX_UINT32 = 2 ** 32 - 1;

/**
 * Writes protobuf into one growing buffer. A nested message is written in place, then moved to make room for
 * the length in front of it, so no message is encoded twice. As in proto3, empty and zero scalars are left
 * out, except by the methods that end in `Always`.
 */
export class WireWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(4096);
  #length = 0;

  /** The written bytes, in memory of their own. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  message(field: number, write: () => void): void {
    this.#tag(field, 2);
    const start = this.#length;
    write();
    const length = this.#length - start;
    const prefix = varintSize(length);
    this.#reserve(prefix);
    this.#bytes.copyWithin(start + prefix, start, this.#length);
    this.#length = start;
    this.#varint(length);
    this.#length += length;
  }

  text(field: number, value: string | null | undefined): void {
    if (value) this.textAlways(field, value);
  }

  textAlways(field: number, value: string): void {
    this.#tag(field, 2);
    const length = Buffer.byteLength(value);
    this.#reserve(length + 5);
    this.#varint(length);
    this.#length += this.#bytes.write(value, this.#length, length, 'utf8');
  }

  hex(field: number, value: string | null | undefined): void {
    if (value) this.bytesAlways(field, Buffer.from(value, 'hex'));
  }

  bytesAlways(field: number, value: Uint8Array): void {
    this.#tag(field, 2);
    this.#reserve(value.length + 5);
    this.#varint(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  /**
   * A uint32, also as decimal digits, which JSON may have. Any other value is left out: of a fraction, a negative or
   * an infinite number `#varint` makes no valid varint, or never ends.
   */
  uint(field: number, value: number | string | null | undefined): void {
    const number = Number(value ?? 0);
    if (!Number.isInteger(number) || number <= 0 || number > MAX_UINT32) return;
    this.#tag(field, 0);
    this.#varint(number);
  }

  /** 64 bits, two's complement. */
  varintAlways(field: number, value: bigint): void {
    this.#tag(field, 0);
    this.#reserve(10);
    let rest = BigInt.asUintN(64, value);
    while (rest > 127n) {
      this.#bytes[this.#length++] = Number(rest & 127n) | 128;
      rest >>= 7n;
    }
    this.#bytes[this.#length++] = Number(rest);
  }

  fixed64(field: number, value: string | number | bigint | null | undefined): void {
    const number = BigInt(value ?? 0);
    if (number === 0n) return;
    this.#tag(field, 1);
    this.#reserve(8);
    this.#length = this.#bytes.writeBigUInt64LE(BigInt.asUintN(64, number), this.#length);
  }

  fixed32(field: number, value: number | null | undefined): void {
    const number = Number(value ?? 0);
    if (number === 0) return;
    this.#tag(field, 5);
    this.#reserve(4);
    this.#length = this.#bytes.writeUInt32LE(number >>> 0, this.#length);
  }

  doubleAlways(field: number, value: number): void {
    this.#tag(field, 1);
    this.#reserve(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  /** Up to 2^53. */
  #varint(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest > 127) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  return size;
}
