import type { RequestHead } from '../../src/component/component.ts';

/** The API key of a request. */
export type Credential = {
  readonly token: string;
  /** The user name of HTTP Basic. */
  readonly user?: string;
};

/**
 * The credential of a request: `Authorization: Bearer <key>`, `Authorization: Basic <user:key>` or `x-api-key: <key>`.
 * Undefined if there is none, if a header is malformed or repeated, or if the two headers have different keys: the
 * intended one is unknown.
 */
export function credentialOf(head: RequestHead): Credential | undefined {
  const named = authorizationOf(head.headers.get('authorization'));
  const plain = plainOf(head.headers.get('x-api-key'));
  if (named === null || plain === null) return undefined;
  if (named !== undefined && plain !== undefined && named.token !== plain) return undefined;
  if (named !== undefined) return named;
  return plain === undefined ? undefined : { token: plain };
}

/** Undefined if the header is absent, null if it is not a single credential. */
function authorizationOf(values: readonly string[] | undefined): Credential | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  const value = (values[0] ?? '').trim();
  // RFC 9110: the scheme is case-insensitive.
  const token = /^bearer +([\x21-\x7e]+)$/i.exec(value)?.[1];
  return token === undefined ? basicOf(value) : { token };
}

/** RFC 7617: base64 of the user name and the password, with a colon between them. */
function basicOf(value: string): Credential | null {
  const encoded = /^basic +([\w+/-]+={0,2})$/i.exec(value)?.[1];
  if (encoded === undefined) return null;
  const decoded = Buffer.from(encoded, 'base64').toString();
  const match = /^([^:]*):([\x21-\x7e]+)$/.exec(decoded);
  return match === null ? null : { token: match[2] ?? '', user: match[1] ?? '' };
}

function plainOf(values: readonly string[] | undefined): string | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  return /^[\x21-\x7e]+$/.exec((values[0] ?? '').trim())?.[0] ?? null;
}
