import { computed, signal } from '@preact/signals';
import { idOfSegment } from '../../src/model/path-id.ts';

/** The address is the state of a page: a link to it shows another person the same page. */
type Address = { readonly path: string; readonly query: URLSearchParams };

const address = signal(read());

function read(): Address {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

window.addEventListener('popstate', () => {
  address.value = read();
});

/** The path of the page, such as `/traces/abc`. */
export const path = computed(() => address.value.path);
/** The parameters of the page; the empty ones are absent. */
export const query = computed(() => address.value.query);

/** The parameter that every page of a project keeps. */
const KEPT = 'project';

/** Parameters of an address: `undefined` and the empty text leave a parameter out. */
export type Parameters = Readonly<Record<string, string | undefined>>;

/** The address of a page, with the project of the current page unless the parameters name one. */
export function hrefOf(to: string, parameters: Parameters = {}): string {
  const kept = query.value.get(KEPT) ?? undefined;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries({ [KEPT]: kept, ...parameters })) {
    if (value !== undefined && value !== '') search.set(name, value);
  }
  const text = search.toString();
  return text === '' ? to : `${to}?${text}`;
}

/** Opens a page. `replace` leaves no entry in the history: for what changes while a person types. */
export function navigate(href: string, { replace = false } = {}): void {
  if (href === `${location.pathname}${location.search}`) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', href);
  address.value = read();
  if (!replace) window.scrollTo(0, 0);
}

/** Changes parameters of the current page and keeps the others. */
export function setQuery(changes: Parameters, options: { readonly replace?: boolean } = {}): void {
  const parameters = { ...Object.fromEntries(query.value), ...changes };
  navigate(hrefOf(path.value, parameters), options);
}

/**
 * Matches a path with a pattern such as `/traces/:id`. Returns the decoded parameters, or undefined if the path does
 * not match or has a broken escape.
 */
export function matchPattern(
  pattern: string,
  given: string,
): Readonly<Record<string, string>> | undefined {
  const wanted = pattern.split('/');
  const segments = given.replace(/(?<=.)\/$/, '').split('/');
  if (wanted.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const segment = segments[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== segment) return undefined;
      continue;
    }
    try {
      params[part.slice(1)] = idOfSegment(decodeURIComponent(segment));
    } catch {
      return undefined;
    }
  }
  return params;
}
