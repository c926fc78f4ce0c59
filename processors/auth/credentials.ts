import type { RequestHead } from '../../src/component/component.ts';

/**
 * The API key of a request: `Authorization: Bearer <key>` or `x-api-key: <key>`. Undefined if there is none, if a
 * header is malformed or repeated, or if the two headers have different keys: the intended one is unknown.
 */
export function credentialOf(head: RequestHead): string | undefined {
  const bearer = bearerOf(head.headers.get('authorization'));
  const plain = plainOf(head.headers.get('x-api-key'));
  if (bearer === null || plain === null) return undefined;
  if (bearer !== undefined && plain !== undefined && bearer !== plain) return undefined;
  return bearer ?? plain;
}

/** Undefined if the header is absent, null if it is not a single credential. */
function bearerOf(values: readonly string[] | undefined): string | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  // RFC 9110: the scheme is case-insensitive.
  return /^bearer +([\x21-\x7e]+)$/i.exec((values[0] ?? '').trim())?.[1] ?? null;
}

function plainOf(values: readonly string[] | undefined): string | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  return /^[\x21-\x7e]+$/.exec((values[0] ?? '').trim())?.[0] ?? null;
}
