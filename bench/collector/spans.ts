/** The trace id of every span of an export request, as a view. Reads no deeper, so that counting is cheap. */
export function* traceIdsOf(request: Buffer): Generator<Buffer> {
  for (const resourceSpans of fields(request, 1)) {
    for (const scopeSpans of fields(resourceSpans, 2)) {
      for (const span of fields(scopeSpans, 2)) {
        const [id] = fields(span, 1, 1);
        yield id ?? Buffer.alloc(0);
      }
    }
  }
}

/** The length-delimited fields with this number, at most `limit` of them. */
function fields(bytes: Buffer, number: number, limit = Number.POSITIVE_INFINITY): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error('the request is truncated');
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length && found.length < limit) {
    const tag = varint();
    switch (tag % 8) {
      case 0:
        varint();
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const end = varint() + at;
        if (Math.floor(tag / 8) === number) found.push(bytes.subarray(at, end));
        at = end;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new Error('the request is not protobuf');
    }
  }
  return found;
}
