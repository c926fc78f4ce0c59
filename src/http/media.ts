import type { RequestHead } from '../component/component.ts';
import type { SentEncoding } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';

/**
 * The media type of a request, lower case and without parameters. Empty, which no route accepts, if the header is
 * missing, repeated or malformed.
 */
export function mediaTypeOf(head: RequestHead): string {
  const values = head.headers.get('content-type');
  if (values === undefined || values.length !== 1) return '';
  const value = values[0] ?? '';
  const end = value.indexOf(';');
  return (end === -1 ? value : value.slice(0, end)).trim().toLowerCase();
}

/** The content encoding, lower case; `identity` without a header. Several are joined by commas. */
export function contentEncodingOf(head: RequestHead): string {
  const values = head.headers.get('content-encoding');
  if (values === undefined) return 'identity';
  const joined = values.join(', ').trim().toLowerCase();
  return joined === '' ? 'identity' : joined;
}

/** The content encoding, if it is one in `names`. Throws a `Refusal` (415) for another one. */
export function acceptedEncoding<Name extends SentEncoding>(
  head: RequestHead,
  names: readonly Name[],
): Name {
  const encoding = contentEncodingOf(head);
  const found = names.find((name) => name === encoding);
  if (found !== undefined) return found;
  const listed = `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
  throw new Refusal('unsupported_encoding', `The content encoding must be ${listed}.`, {
    acceptEncoding: names.join(', '),
  });
}
