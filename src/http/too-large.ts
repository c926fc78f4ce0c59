import { Refusal } from '../model/errors.ts';

const MIB = 1_048_576;

/** The refusal of a body, or of what it inflates into, that is over `maxBytes`, which are whole MiB. */
export function tooLarge(what: string, maxBytes: number, cause?: unknown): Refusal {
  const message = `The ${what} exceeds ${maxBytes / MIB} MiB (${maxBytes} bytes).`;
  return new Refusal('body_too_large', message, cause === undefined ? {} : { cause });
}
