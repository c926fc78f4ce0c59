import { RetryableError } from '../model/errors.ts';

/** The component has not started, or has stopped: a reload that replaces it starts the next one soon. */
export class NotStartedError extends RetryableError {
  constructor(owner: string) {
    super('starting', `${owner} is not started`);
  }
}

/**
 * A proxy for an object that exists only while an extension runs. Components look up offers when they are created,
 * before any extension has started, and use them afterwards. Every use reaches the current object, and throws if there
 * is none. Members in `early` are available before the start.
 */
export function deferred<T extends object>(
  owner: string,
  current: () => T | undefined,
  early: Partial<T> = {},
): T {
  const methods = new Map<string | symbol, BoundMethod>();
  return new Proxy({} as T, {
    get(_target, key) {
      if (key in early) return Reflect.get(early, key);
      const object = current();
      if (object === undefined) throw new NotStartedError(owner);
      const member: unknown = Reflect.get(object, key);
      if (typeof member !== 'function') return member;
      const known = methods.get(key);
      if (known?.object === object && known.method === member) return known.bound;
      const bound: unknown = member.bind(object);
      methods.set(key, { object, method: member, bound });
      return bound;
    },
  });
}

/** A method is bound once: components call some for each request. */
type BoundMethod = { readonly object: object; readonly method: unknown; readonly bound: unknown };
