import type { RequestHead } from '../../src/component/component.ts';

/**
 * The API key of a request: `Authorization: Bearer <key>` or `x-api-key: <key>`. Undefined where there is
 * none, where a header is malformed or repeated, and where the two name different keys: which of them
 * was meant is not ours to guess.
 */
export function credentialOf(head: RequestHead): string | undefined {
  const bearer = bearerOf(head.headers.get('authorization'));
  const plain = plainOf(head.headers.get('x-api-key'));
  if (bearer === null || plain === null) return undefined;
  if (bearer !== undefined && plain !== undefined && bearer !== plain) return undefined;
  return bearer ?? plain;
}

/** Undefined where the header is absent, null where it is no single credential. */
function bearerOf(values: readonly string[] | undefined): string | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  // RFC 9110: the scheme's case does not matter.
  return /^bearer +([\x21-\x7e]+)$/i.exec((values[0] ?? '').trim())?.[1] ?? null;
}

function plainOf(values: readonly string[] | undefined): string | null | undefined {
  if (values === undefined) return undefined;
  if (values.length !== 1) return null;
  return /^[\x21-\x7e]+$/.exec((values[0] ?? '').trim())?.[0] ?? null;
}
