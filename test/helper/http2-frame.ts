/** A frame of HTTP/2 (RFC 9113, 4.1). */
export function http2Frame(
  type: number,
  flags: number,
  stream: number,
  payload = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header field of HPACK, not indexed and not compressed. Its name and its value are shorter than 127 bytes each. */
export function literalField(name: string, value: string): Buffer {
  const text = (part: string) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}
