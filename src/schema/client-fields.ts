import { z } from 'zod';
import { secret } from './fields.ts';
import { mark } from './marks.ts';

/** Fields of clients of other services, with the Collector's names and defaults. */

/** An `http` or `https` address; the error message names the field. */
export function httpUrl(field: string) {
  const url = z
    .string()
    .refine((text) => parseHttpUrl(text) !== undefined, {
      error: `${field} must be a valid URL, such as http://127.0.0.1:4318`,
    })
    .meta({ examples: ['https://gateway.example.com:4318'] });
  return mark(url, { form: 'URL' });
}

/** Undefined if the text is no absolute HTTP address, or has a fragment. */
export function parseHttpUrl(text: string): URL | undefined {
  if (!/^https?:\/\/[^\s/]/i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.hostname !== '' && url.hash === '' ? url : undefined;
}

/** `headers`: names that HTTP allows; the values are never printed. */
export function secretHeaders() {
  return z.record(
    z
      .string()
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header has a name of letters, digits and -'),
    // The characters that HTTP allows in a header value.
    secret().regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'a header holds one line of Latin-1 text'),
  );
}
