import type { IncomingHttpHeaders } from 'node:http';

/** The cookie that holds the id of a session. */
export type UiCookie = {
  /** The id that a request sends; undefined without one, and with several different ones. */
  read(headers: IncomingHttpHeaders): string | undefined;
  /** A `Set-Cookie` that keeps the id until the browser ends. */
  write(id: string, headers: IncomingHttpHeaders): string;
  /** The `Set-Cookie`s that remove the cookie. */
  remove(): string[];
};

const ATTRIBUTES = 'Path=/; HttpOnly; SameSite=Strict';

/**
 * Under TLS the cookie has the prefix `__Host-`: a browser takes it only over TLS and from this host itself. `hasTls`: the
 * listener serves https. Behind a proxy that ends TLS, the `Origin` of the sign-in says that the browser uses https.
 */
export function uiCookie(suffix: string, hasTls: boolean): UiCookie {
  const plain = `tracectl-ui-${suffix}`;
  const secure = `__Host-${plain}`;
  return {
    read({ cookie = '' }) {
      const id = only(cookie, secure);
      return id === undefined && !hasTls ? only(cookie, plain) : id;
    },
    write(id, { origin = '' }) {
      const isSecure = hasTls || /^https:/i.test(origin);
      return isSecure ? `${secure}=${id}; ${ATTRIBUTES}; Secure` : `${plain}=${id}; ${ATTRIBUTES}`;
    },
    remove() {
      const removed = `=; ${ATTRIBUTES}; Max-Age=0`;
      const removedSecure = `${secure}${removed}; Secure`;
      return hasTls ? [removedSecure] : [removedSecure, plain + removed];
    },
  };
}

function only(header: string, name: string): string | undefined {
  const values = header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return new Set(values).size === 1 ? values[0] : undefined;
}
