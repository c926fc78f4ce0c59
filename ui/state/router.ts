import { computed, signal } from '@preact/signals';
import { idOfSegment } from '../../src/model/path-id.ts';
import { withParameters } from '../api/address.ts';
import { keepScroll } from './kept.ts';

/** The address is the state of a page: a link to it shows another person the same page. */
type Address = {
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names the entry of the history: Back shows the same one again. */
  readonly entry: string;
  /** Back or Forward opened the entry. */
  readonly isRevisited: boolean;
};

let lastEntry = 0;
const address = signal(read(false));
// The browser would put the page where it was before its content is there.
history.scrollRestoration = 'manual';

function read(isRevisited: boolean): Address {
  const state: unknown = history.state;
  let entry = isEntry(state) ? state.entry : undefined;
  if (entry === undefined) {
    entry = newEntry();
    history.replaceState({ entry }, '');
  }
  const { pathname, search } = location;
  return { path: pathname, query: new URLSearchParams(search), entry, isRevisited };
}

function isEntry(state: unknown): state is { readonly entry: string } {
  return typeof state === 'object' && state !== null && 'entry' in state;
}

/** Differs from the entries of earlier loads of the page, which the history still has. */
function newEntry(): string {
  lastEntry += 1;
  return `${performance.timeOrigin} ${lastEntry}`;
}

/** Returns true to stay on the page. */
type Leaving = () => boolean;
let leaving: Leaving | undefined;

/** Asks before Back, Forward and links leave the page. Returns a function that ends it. */
export function askBeforeLeaving(ask: Leaving): () => void {
  leaving = ask;
  return () => {
    if (leaving === ask) leaving = undefined;
  };
}

window.addEventListener('popstate', () => {
  const before = address.value;
  if (leaving?.() === true) {
    // The browser has left the entry already: the page gets a new one.
    history.pushState(
      { entry: before.entry },
      '',
      withParameters(before.path, Object.fromEntries(before.query)),
    );
    return;
  }
  keepScroll(before.entry);
  address.value = read(true);
  if (address.value.path !== before.path) window.scrollTo(0, 0);
});

/** The path of the page, such as `/traces/abc`. */
export const path = computed(() => address.value.path);
/** The parameters of the page; the empty ones are absent. */
export const query = computed(() => address.value.query);

/** The entry of the history that the page belongs to. A change of the address in place keeps it. */
export const entry = computed(() => address.value.entry);
export const isRevisited = computed(() => address.value.isRevisited);

/** The parameter that every page of a project keeps. */
const KEPT = 'project';

/** Parameters of an address: `undefined` and the empty text leave a parameter out. */
export type Parameters = Readonly<Record<string, string | undefined>>;

/** The address of a page, with the project of the current page unless the parameters name one. */
export function hrefOf(to: string, parameters: Parameters = {}): string {
  const kept = query.value.get(KEPT) ?? undefined;
  return withParameters(to, { [KEPT]: kept, ...parameters });
}

/**
 * Opens a page. `replace` leaves no entry in the history: for what changes while a person types. `isAsked` is false if the page itself
 * opens another one.
 */
export function navigate(href: string, { replace = false, isAsked = true } = {}): void {
  if (href === `${location.pathname}${location.search}`) return;
  if (!replace && isAsked && leaving?.() === true) return;
  if (replace) history.replaceState(history.state, '', href);
  else {
    keepScroll(address.value.entry);
    history.pushState({ entry: newEntry() }, '', href);
  }
  address.value = read(false);
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
