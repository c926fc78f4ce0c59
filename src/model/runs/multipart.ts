import { Refusal } from '../errors.ts';

/** A part of a multipart body; its content is at [start, end) of the body. */
export type Part = {
  readonly name: string;
  /** The headers are at [headers, start) of the body. */
  readonly headers: number;
  readonly start: number;
  readonly end: number;
};

/** More parts are refused. A run of LangSmith's clients has at most seven, beside its attachments. */
export const MAX_PARTS = 10_000;
/** Bytes of the headers of one part. */
export const MAX_PART_HEADER_BYTES = 8192;
/** Characters of the name of a part. */
export const MAX_PART_NAME = 2048;

const DASH = 0x2d;
const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
const HEADERS_END = Buffer.from('\r\n\r\n');

/** The boundary that a content type names (RFC 2046); undefined without a valid one. */
export function boundaryOf(contentType: string): string | undefined {
  const match = /;\s*boundary=(?:"([^"\r\n]{1,200})"|([^\s;"]{1,200}))\s*(?:;|$)/i.exec(
    contentType,
  );
  return match?.[1] ?? match?.[2];
}

/**
 * The parts of a `multipart/form-data` body (RFC 7578), in their order. Throws a `Refusal` (400, 413) if the body is cut, if a part has
 * no name, or beyond a limit. Contents are neither copied nor read.
 */
export function partsOf(body: Buffer, boundary: string): Part[] {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const parts: Part[] = [];
  let before = firstDelimiter(body, delimiter);
  while (!before.isLast) {
    if (parts.length === MAX_PARTS) {
      throw new Refusal('too_many_events', `The body has more than ${MAX_PARTS} parts.`);
    }
    const start = endOfHeaders(body, before.end);
    const next = nextDelimiter(body, delimiter, start);
    const name = nameAt(body, before.end, start);
    parts.push({ name, headers: before.end, start, end: next.start });
    before = next;
  }
  return parts;
}

/** A delimiter with its line break; the last one of a body has two dashes in its place. */
type Delimiter = { readonly start: number; readonly end: number; readonly isLast: boolean };

/** The body may begin with its first delimiter; what is before it is skipped. */
function firstDelimiter(body: Buffer, delimiter: Buffer): Delimiter {
  const withoutBreak = delimiter.subarray(2);
  const begins = body.subarray(0, withoutBreak.length).equals(withoutBreak);
  const found = begins ? delimiterAt(body, 0, withoutBreak.length) : undefined;
  return found ?? nextDelimiter(body, delimiter, 0);
}

function nextDelimiter(body: Buffer, delimiter: Buffer, from: number): Delimiter {
  for (let start = from; ; start++) {
    start = body.indexOf(delimiter, start);
    if (start === -1) throw invalid('The multipart body is cut: its last boundary is missing.');
    const found = delimiterAt(body, start, delimiter.length);
    if (found !== undefined) return found;
  }
}

/** Undefined if the boundary is the beginning of a longer text, which is content. */
function delimiterAt(body: Buffer, start: number, length: number): Delimiter | undefined {
  let at = start + length;
  if (body[at] === DASH && body[at + 1] === DASH) return { start, end: at + 2, isLast: true };
  while (body[at] === SPACE || body[at] === TAB) at++;
  if (body[at] !== CR || body[at + 1] !== LF) return undefined;
  return { start, end: at + 2, isLast: false };
}

/** The position behind the empty line that ends the headers. */
function endOfHeaders(body: Buffer, start: number): number {
  if (body[start] === CR && body[start + 1] === LF) return start + 2;
  const found = body.indexOf(HEADERS_END, start);
  if (found !== -1 && found - start <= MAX_PART_HEADER_BYTES) return found + HEADERS_END.length;
  throw invalid(`The headers of a part have no end, or exceed ${MAX_PART_HEADER_BYTES} bytes.`);
}

/** The beginning of the headers as LangSmith's clients send them. */
const USUAL = 'Content-Disposition: form-data; name="';

/** Hot path, runs for every part: the usual form costs a small part of reading the headers. */
function nameAt(body: Buffer, start: number, end: number): string {
  const head = body.toString('latin1', start, end);
  const close = head.startsWith(USUAL) ? head.indexOf('"', USUAL.length) : -1;
  const usual = close === -1 ? undefined : head.slice(USUAL.length, close);
  const isPlain = usual !== undefined && PLAIN.test(usual);
  const name = isPlain ? usual : nameIn(headerIn(body, start, end, 'content-disposition'));
  if (name === undefined) throw invalid('A part has no name.');
  if (name.length > MAX_PART_NAME) {
    throw invalid(`The name of a part exceeds ${MAX_PART_NAME} characters.`);
  }
  return name;
}

const PLAIN = /^[\w.-]*$/;

/** The media type of a part, as it is sent; empty without one. */
export function contentTypeOf(body: Buffer, { headers, start }: Part): string {
  return headerIn(body, headers, start, 'content-type').trim();
}

/** The value of the last header with the name; empty without one. */
function headerIn(body: Buffer, start: number, end: number, wanted: string): string {
  let value = '';
  for (const line of body.toString('utf8', start, end).split('\r\n')) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trim().toLowerCase();
    if (name === wanted) value = line.slice(colon + 1);
  }
  return value;
}

function nameIn(disposition: string): string | undefined {
  const match = /;\s*name=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(disposition);
  return match?.[1]?.replaceAll(/\\(.)/g, '$1') ?? match?.[2];
}

function invalid(message: string): Refusal {
  return new Refusal('invalid_request', message);
}
