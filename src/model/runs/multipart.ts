import { Refusal } from '../errors.ts';

/** A part of a multipart body; its content is at [start, end) of the body. */
export class Part {
  readonly #body: Buffer;
  #name: string | undefined;
  /** The name is spelled at [nameStart, nameEnd) of the body, in plain ASCII; both are 0 if it is spelled in another way. */
  readonly nameStart: number;
  readonly nameEnd: number;
  /** The headers are at [headers, start) of the body. */
  readonly headers: number;
  readonly start: number;
  readonly end: number;

  constructor(body: Buffer, head: PartHead, end: number) {
    this.#body = body;
    this.#name = head.name;
    this.nameStart = head.nameStart;
    this.nameEnd = head.nameEnd;
    this.headers = head.headers;
    this.start = head.start;
    this.end = end;
  }

  /** Made when it is first read: a string costs more than finding the part. */
  get name(): string {
    this.#name ??= this.#body.toString('latin1', this.nameStart, this.nameEnd);
    return this.#name;
  }
}

/** The headers of a part; `name` is undefined if the name is plain. */
type PartHead = Pick<Part, 'nameStart' | 'nameEnd' | 'headers' | 'start'> & {
  readonly name: string | undefined;
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
const QUOTE = 0x22;
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
  const bytes = viewedBody(body);
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const parts: Part[] = [];
  let before = firstDelimiter(body, delimiter);
  let last: Part | undefined;
  while (!before.isLast) {
    if (parts.length === MAX_PARTS) {
      throw new Refusal('too_many_events', `The body has more than ${MAX_PARTS} parts.`);
    }
    const usual: PartHead | undefined = usualHead(bytes, before.end, last);
    const start = usual?.start ?? endOfHeaders(body, before.end);
    const next = delimiterBehind(bytes, delimiter, before, start);
    last = new Part(body, usual ?? headAt(body, before.end, start), next.start);
    parts.push(last);
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

/** Hot path: JSON in parts has no line break as a rule, and finding one byte costs a sixth of finding the delimiter. */
function delimiterBehind(
  bytes: ViewedBody,
  delimiter: Buffer,
  before: Delimiter,
  from: number,
): Delimiter {
  const { body } = bytes;
  // The first delimiter of a body may have no line break.
  const lineBreak = body[before.start] === CR ? 2 : 0;
  let start = from;
  for (let tries = 0; tries < LINE_BREAKS_TRIED; tries++) {
    start = body.indexOf(CR, start);
    if (start === -1) throw cut();
    const isDelimiter =
      body[start + 1] === LF &&
      areSame(bytes, before.start + lineBreak, start + 2, delimiter.length - 2);
    const found = isDelimiter ? delimiterAt(body, start, delimiter.length) : undefined;
    if (found !== undefined) return found;
    start++;
  }
  return nextDelimiter(body, delimiter, start);
}

const LINE_BREAKS_TRIED = 8;

function nextDelimiter(body: Buffer, delimiter: Buffer, from: number): Delimiter {
  for (let start = from; ; start++) {
    start = body.indexOf(delimiter, start);
    if (start === -1) throw cut();
    const found = delimiterAt(body, start, delimiter.length);
    if (found !== undefined) return found;
  }
}

function cut(): Refusal {
  return invalid('The multipart body is cut: its last boundary is missing.');
}

/** The bytes of a body, and a view of them for reading four at a time. */
export type ViewedBody = { readonly body: Buffer; readonly view: DataView };

export function viewedBody(body: Buffer): ViewedBody {
  return { body, view: new DataView(body.buffer, body.byteOffset, body.byteLength) };
}

/** Hot path: whether the body has the same bytes at two places, of which `b` is the later one. */
export function areSame({ body, view }: ViewedBody, a: number, b: number, length: number): boolean {
  if (b + length > body.length) return false;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    if (view.getInt32(a + i, true) !== view.getInt32(b + i, true)) return false;
  }
  for (; i < length; i++) if (body[a + i] !== body[b + i]) return false;
  return true;
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
const USUAL = Buffer.from('Content-Disposition: form-data; name="');

/**
 * Hot path, runs for every part: headers in the usual form with a plain name, whose bytes behind the name are those of the part before.
 * Undefined for any other.
 */
function usualHead(
  bytes: ViewedBody,
  headers: number,
  before: Part | undefined,
): PartHead | undefined {
  if (before === undefined || before.nameEnd === 0) return undefined;
  if (!areSame(bytes, before.headers, headers, USUAL.length)) return undefined;
  const { body } = bytes;
  const nameStart = headers + USUAL.length;
  const nameEnd = endOfPlain(body, nameStart);
  if (body[nameEnd] !== QUOTE || nameEnd - nameStart > MAX_PART_NAME) return undefined;
  const length = before.start - before.nameEnd;
  const start = nameEnd + length;
  if (start - headers > MAX_PART_HEADER_BYTES) return undefined;
  if (!areSame(bytes, before.nameEnd, nameEnd, length)) return undefined;
  return { name: undefined, nameStart, nameEnd, headers, start };
}

function endOfPlain(body: Buffer, start: number): number {
  let at = start;
  while (PLAIN[body[at] ?? 0] === 1) at++;
  return at;
}

/** 1 for letters, digits, `_`, `.` and `-`. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, c) =>
  /[\w.-]/.test(String.fromCharCode(c)) ? 1 : 0,
);

/** The headers at [headers, start). */
function headAt(body: Buffer, headers: number, start: number): PartHead {
  const nameStart = headers + USUAL.length;
  const isUsual = body.subarray(headers, nameStart).equals(USUAL);
  const nameEnd = isUsual ? endOfPlain(body, nameStart) : 0;
  const isPlain = nameEnd !== 0 && nameEnd < start && body[nameEnd] === QUOTE;
  const name = isPlain ? undefined : nameIn(headerIn(body, headers, start, 'content-disposition'));
  if (!isPlain && name === undefined) throw invalid('A part has no name.');
  if ((name?.length ?? nameEnd - nameStart) > MAX_PART_NAME) {
    throw invalid(`The name of a part exceeds ${MAX_PART_NAME} characters.`);
  }
  const place = isPlain ? { nameStart, nameEnd } : { nameStart: 0, nameEnd: 0 };
  return { name, ...place, headers, start };
}

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
