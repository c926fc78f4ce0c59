import { type Candidates, Cause, SPACING } from './candidates.ts';

/** A part of a text that is decoded and searched, and the causes of the candidates in it. */
export type TextWindow = { readonly start: number; readonly end: number; readonly causes: number };

type Range = { readonly start: number; readonly end: number };

/** Texts up to this size are one window: decoding them takes about a microsecond. */
const WHOLE_BYTES = 2_048;
/** Neighbouring windows are joined up to this size, which takes a few milliseconds in the worst case. */
const MAX_WINDOW = 16_384;
/** An edge moves on to a delimiter, so that it cuts no key or token: at most so far. */
const MAX_TOKEN = 8_192;

/** Bytes in front of and behind a candidate that its rules read, apart from the token it is in. */
const REACH = [
  { causes: Cause.RUN | Cause.PHONE, before: 160, after: 160 },
  { causes: Cause.EMAIL, before: 320, after: 320 },
  { causes: Cause.API_KEY | Cause.JWT, before: 32, after: 512 },
  { causes: Cause.PRIVATE_KEY, before: 64, after: 4_096 },
  { causes: Cause.NAME, before: 256, after: 512 },
] as const;
/** Each round of escaping may make six characters of one: a token of 600 bytes then has 20 KB. */
const ESCAPED = { before: 12_288, after: 24_576, maxWindow: 65_536 } as const;
/** No window starts earlier than the one before it by more than this. */
export const MAX_BEFORE = ESCAPED.before;
const TOKENS = Cause.API_KEY | Cause.JWT | Cause.NAME;

/** Windows around the candidates of a text, in their order. They overlap if candidates are dense. */
export function* windowsOf(
  bytes: Buffer,
  text: Range,
  candidates: Candidates,
): Generator<TextWindow> {
  if (text.end - text.start <= WHOLE_BYTES) {
    const causes = candidates.causesIn(text.start, text.end);
    if (causes !== 0) yield { start: text.start, end: text.end, causes };
    return;
  }
  let open: TextWindow | undefined;
  for (const { position, cause } of candidates.within(text.start, text.end)) {
    const next = around(text, position, cause);
    if (open === undefined) {
      open = next;
    } else if (next.start <= open.end && next.end <= open.start + maxWindow(cause)) {
      const end = Math.max(open.end, next.end);
      const start = Math.min(open.start, next.start);
      open = { start, end, causes: open.causes | cause };
    } else {
      yield atDelimiters(bytes, text, open, candidates);
      open = next;
    }
  }
  if (open !== undefined) yield atDelimiters(bytes, text, open, candidates);
}

function maxWindow(cause: number): number {
  return cause === Cause.ESCAPE ? ESCAPED.maxWindow : MAX_WINDOW;
}

function around(text: Range, position: number, cause: number): TextWindow {
  let before = 0;
  let after = 0;
  for (const reach of cause === Cause.ESCAPE ? [ESCAPED] : reachesOf(cause)) {
    before = Math.max(before, reach.before);
    after = Math.max(after, reach.after);
  }
  const start = Math.max(text.start, position - before);
  return { start, end: Math.min(text.end, position + SPACING + after), causes: cause };
}

function reachesOf(cause: number) {
  return REACH.filter((reach) => (reach.causes & cause) !== 0);
}

/** The same window, up to another end. */
export function withEnd(
  bytes: Buffer,
  text: Range,
  window: TextWindow,
  end: number,
  candidates: Candidates,
): TextWindow {
  return atDelimiters(bytes, text, { ...window, end: Math.min(text.end, end) }, candidates);
}

/** Further candidates may be in what is added: their windows are then searched with this one. */
function atDelimiters(
  bytes: Buffer,
  text: Range,
  { start, end, causes }: TextWindow,
  candidates: Candidates,
): TextWindow {
  let from = start;
  let to = end;
  if ((causes & TOKENS) !== 0) {
    const last = Math.min(text.end, end + MAX_TOKEN);
    while (to < last && !isDelimiter(bytes[to])) to++;
  }
  // The edges are at least between two characters.
  for (let i = 0; i < 3 && from > text.start && isContinuation(bytes[from]); i++) from--;
  for (let i = 0; i < 3 && to < text.end && isContinuation(bytes[to]); i++) to++;
  return { start: from, end: to, causes: causes | candidates.causesIn(from, to) };
}

const DELIMITERS = new Uint8Array(256);
DELIMITERS.fill(1, 0, 0x20);
for (const byte of Buffer.from(' "\'`,;<>()[]{}|\\')) DELIMITERS[byte] = 1;

function isDelimiter(byte = 0): boolean {
  return DELIMITERS[byte] === 1;
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}
