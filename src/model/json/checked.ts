import { decodeJson } from './decode.ts';
import { checkJson } from './scan.ts';

/** The value of a JSON text that a client sent inside another value; undefined if it is no JSON, or nested too deeply. */
export function decodeCheckedText(text: string, maxDepth?: number): unknown {
  try {
    const bytes = Buffer.from(text);
    checkJson(bytes, maxDepth);
    return decodeJson(bytes, 0, bytes.length);
  } catch {
    return undefined;
  }
}
