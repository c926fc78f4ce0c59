import type { Pipeline } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { idOfSegment } from '../model/path-id.ts';
import type { Exchange, RenderRefusal } from './exchange.ts';
import type { FeedbackIntake } from './feedback.ts';

export type Handler = (exchange: Exchange) => Promise<void> | void;

/** A method and path that a receiver serves. */
export type Route = {
  readonly method: string;
  /** A segment that begins with `:` matches any one segment: `/api/v1/runs/:id`. */
  readonly path: string;
  readonly renderRefusal: RenderRefusal;
  readonly handler: Handler;
  /** Served, but not listed for people: another spelling of a path, or one with a helpful refusal only. */
  readonly hidden?: boolean;
  /** Of each connection one request at a time is handled; later ones wait until the earlier ones are answered. */
  readonly oneAtATime?: boolean;
};

/** The pipeline behind a receiver, and the tenant of requests that the pipeline does not authenticate. */
export type Entrance = { readonly pipeline: Pipeline; readonly fallback: Tenant | undefined };

/** Routes that a listener serves once, for all receivers on it: the reading requests. */
export type CommonRoutes = {
  readonly routes: readonly CommonRoute[];
  /** Of a listener with several entrances, requests go through the one with the highest preference. */
  preference(entrance: Entrance): number;
  readonly feedback?: FeedbackIntake;
};

export type CommonRoute = Omit<Route, 'handler'> & {
  /** `all` are the entrances of the listener that are open at the time of the call, with this one. */
  readonly handler: (entrance: Entrance, all: () => readonly Entrance[]) => Handler;
};

/** The target of a request line. */
export type Target = { readonly path: string; readonly query: string };

/** Parses `/path?query` and, as RFC 9112 requires, `http://host/path?query`; undefined if malformed. */
export function parseTarget(url: string): Target | undefined {
  if (url.startsWith('/')) return splitQuery(url);
  if (url === '*') return { path: '*', query: '' };
  if (!URL.canParse(url)) return undefined;
  const { protocol, pathname, search } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') return undefined;
  return { path: pathname, query: search.slice(1) };
}

function splitQuery(url: string): Target {
  const mark = url.indexOf('?');
  if (mark === -1) return { path: url, query: '' };
  return { path: url.slice(0, mark), query: url.slice(mark + 1) };
}

/** A compiled path pattern. */
export type PathPattern = {
  readonly path: string;
  /** Undefined for a path without parameters, which is compared as text. */
  readonly segments: readonly string[] | undefined;
};

export function compilePath(path: string): PathPattern {
  return { path, segments: path.includes('/:') ? path.split('/') : undefined };
}

/** The encoded parameters if the path matches. An empty segment matches no parameter. */
export function matchPath(
  pattern: PathPattern,
  path: string,
  segments: readonly string[],
): Record<string, string> | undefined {
  if (pattern.segments === undefined) return pattern.path === path ? {} : undefined;
  if (pattern.segments.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, wanted] of pattern.segments.entries()) {
    const found = segments[i] ?? '';
    if (wanted.startsWith(':')) {
      if (found === '') return undefined;
      params[wanted.slice(1)] = found;
    } else if (wanted !== found) return undefined;
  }
  return params;
}

/** Decodes the parameters; undefined if one has an invalid escape or is not UTF-8. */
export function decodeParams(params: Record<string, string>): Record<string, string> | undefined {
  const decoded: Record<string, string> = {};
  try {
    for (const name in params) decoded[name] = idOfSegment(decodeURIComponent(params[name] ?? ''));
  } catch {
    return undefined;
  }
  return decoded;
}
