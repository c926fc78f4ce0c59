import { type Finding, matchEnd } from './finding.ts';

/** Credentials that are known by their form alone, wherever they are. */

/** Tokens of RFC 7519: `header.payload.signature`, or five parts if the token is encrypted. */
export function findJwts(text: string): Finding[] {
  const found: Finding[] = [];
  let at = text.indexOf('eyJ');
  while (at !== -1) {
    const headerEnd = matchEnd(PART, text, at) ?? at;
    const end = matchEnd(MORE_PARTS, text, headerEnd);
    const isToken =
      end !== undefined && (text.startsWith('.eyJ', headerEnd) || isHeader(text, at, headerEnd));
    if (isToken) found.push({ start: at, end });
    // Every further `eyJ` of this part ends where the part ends: reading it again finds the same.
    at = text.indexOf('eyJ', isToken ? end : headerEnd);
  }
  return found;
}

const PART = /[\w-]+/y;
/** Payload and signature, which is empty if nothing signs; or key, vector, cipher text and tag. */
const MORE_PARTS = /\.[\w-]*\.[\w-]*(?:\.[\w-]+\.[\w-]+)?/y;

/** The payload of an encrypted token is no JSON, so its header decides: it names an algorithm. */
function isHeader(text: string, start: number, end: number): boolean {
  return Buffer.from(text.slice(start, end), 'base64url').includes('"alg"');
}

const BEGIN = /-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
const END = /-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
/** Base64 behind the first line of a block that is cut off. Line ends may be spelled as escapes. */
const LINES =
  /(?:(?:\s|\\[nr])*[A-Za-z0-9+/]{32,}={0,2})*(?:(?:\s|\\[nr])*[A-Za-z0-9+/]{4,31}={0,2}(?![\w ]))?/y;

/**
 * PEM blocks with a private key, OpenPGP's too. A block without its last line ends with its Base64; `isCut` says
 * that its last line may still come.
 */
export function findPrivateKeys(text: string, isCut: boolean): Finding[] {
  const found: Finding[] = [];
  let close: { readonly start: number; readonly end: number } | undefined;
  for (const { index, 0: line } of text.matchAll(BEGIN)) {
    if (index < (found.at(-1)?.end ?? 0)) continue;
    const start = index + line.length;
    if (close === undefined || close.start < start) close = nextClose(text, start);
    found.push({ start: index, end: blockEnd(text, start, close, isCut) });
  }
  return found;
}

/** The last line of the next block; behind the text if there is none, so that it is searched once. */
function nextClose(text: string, start: number): { start: number; end: number } {
  END.lastIndex = start;
  const match = END.exec(text);
  return { start: match?.index ?? Number.POSITIVE_INFINITY, end: END.lastIndex };
}

function blockEnd(
  text: string,
  start: number,
  close: { readonly start: number; readonly end: number },
  isCut: boolean,
): number {
  if (close.start - start <= MAX_BLOCK) return close.end;
  if (isCut && text.length - start <= MAX_BLOCK) return text.length;
  return matchEnd(LINES, text, start) ?? start;
}

/** Characters between the first and the last line of a block: a key of 16,384 bits, its lines escaped twice. */
const MAX_BLOCK = 32_768;

const AWS_KEY_ID = /(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}/g;

/** Ids of AWS access keys. The secret keys have no form; secret-names.ts finds them by name. */
export function findAwsKeyIds(text: string): Finding[] {
  return Array.from(text.matchAll(AWS_KEY_ID), ({ index, 0: id }) => ({
    start: index,
    end: index + id.length,
  }));
}
