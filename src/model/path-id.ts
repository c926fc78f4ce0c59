/** The ids that a path cannot have as they are, with what distinguishes them from others. */
const DOTS = /^~*\.\.?$/;
const SHIFTED = /^~+\.\.?$/;

/**
 * The segment of a path for an id. Browsers, and clients with their rules for URLs, remove the segments `.` and `..`, also
 * in percent escapes. So these ids follow a `~`, and an id that has this form already gets one more.
 */
export function segmentOf(id: string): string {
  return encodeURIComponent(DOTS.test(id) ? `~${id}` : id);
}

/** The id of a decoded segment. The segments `.` and `..` of clients that keep them are ids, too. */
export function idOfSegment(decoded: string): string {
  return SHIFTED.test(decoded) ? decoded.slice(1) : decoded;
}
