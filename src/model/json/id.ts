/** The longest id in bytes of UTF-8. Ids of all known clients are shorter, and every store can index it. */
export const MAX_ID_BYTES = 4096;

/** Non-empty well-formed Unicode without NUL, at most 4,096 bytes of UTF-8. */
export function isId(text: string): boolean {
  if (text === '' || text.length > MAX_ID_BYTES) return false;
  if (!text.isWellFormed() || text.includes('\0')) return false;
  return text.length * 3 <= MAX_ID_BYTES || Buffer.byteLength(text) <= MAX_ID_BYTES;
}
