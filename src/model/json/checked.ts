import { decodeJson } from './decode.ts';
import { MAX_JSON_DEPTH } from './grammar.ts';
import { checkJson } from './scan.ts';

/** The value of a JSON text that a client sent inside another value; undefined if it is no JSON, or nested too deeply. */
export function decodeCheckedText(text: string, maxDepth?: number): unknown {
  try {
    // A short text is within the depth of a body, and its keys are safe without escapes; see `decodeJson`.
    if (maxDepth === undefined && text.length <= MAX_JSON_DEPTH && !text.includes('\\')) {
      return JSON.parse(text);
    }
    const bytes = Buffer.from(text);
    checkJson(bytes, maxDepth);
    return decodeJson(bytes, 0, bytes.length);
  } catch {
    return undefined;
  }
}
