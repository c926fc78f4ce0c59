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
  return new Proxy({} as T, {
    get(_target, key) {
      if (key in early) return Reflect.get(early, key);
      const object = current();
      if (object === undefined) throw new Error(`${owner} is not started`);
      const member: unknown = Reflect.get(object, key);
      return typeof member === 'function' ? member.bind(object) : member;
    },
  });
}
