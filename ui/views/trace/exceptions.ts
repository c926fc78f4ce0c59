import type { Observation } from '../../api/types.ts';
import { isRecord } from '../../parts/message-parts.ts';

type Exception = { readonly type: unknown; readonly message: unknown; readonly stack: unknown };

/** Exceptions that show. Each event is compared with all of them. */
const MOST = 20;

/** The error of an observation, and the exceptions of its events that it does not repeat. */
export function exceptionsOf({
  error,
  events,
}: Pick<Observation, 'error' | 'events'>): Exception[] {
  const found: Exception[] =
    error === null ? [] : [{ type: error.type, message: error.message, stack: error.stacktrace }];
  for (const event of Array.isArray(events) ? events : []) {
    const attributes = isRecord(event) ? event['attributes'] : undefined;
    if (!isRecord(event) || event['name'] !== 'exception' || !isRecord(attributes)) continue;
    const [type, message, stack] = ['type', 'message', 'stacktrace'].map(
      (name) => attributes[`exception.${name}`],
    );
    const known = found.find((each) => each.message === message && (each.stack ?? stack) === stack);
    if (known === undefined) found.push({ type, message, stack });
    else if (known.stack === null) found[found.indexOf(known)] = { ...known, stack };
    if (found.length === MOST) break;
  }
  return found;
}
