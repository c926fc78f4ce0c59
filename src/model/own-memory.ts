/**
 * The bytes in memory that holds nothing else, but for `spare` bytes: a copy, if it holds more. A component that keeps a part of a larger
 * memory, or sends it to a thread, keeps or sends all of it.
 */
export function ownMemoryOf(bytes: Buffer, spare = 0): Buffer {
  return bytes.buffer.byteLength <= bytes.length + spare ? bytes : ownCopyOf(bytes);
}

/** A copy in memory of its own, which is not of Node's shared pool. */
export function ownCopyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
