import { Refusal } from '../model/errors.ts';
import { renderEnvelopeRefusal } from './envelope.ts';
import type { RenderRefusal } from './exchange.ts';
import { notServed, wrongMethodHint } from './near-misses.ts';
import type { CommonRoutes, Entrance, PathPattern, Route } from './routes.ts';
import { compilePath, decodeParams, matchPath } from './routes.ts';
import type { Found } from './server.ts';

/** One receiver's hold on a shared server. */
export type Hold = {
  readonly graph: number;
  readonly entrance: Entrance | undefined;
  readonly routes: CompiledRoute[];
  /** The common routes, bound to the receiver's entrance; none without one. */
  readonly common: readonly CompiledRoute[];
  /** Those of both without parameters, by path. */
  readonly exact: Map<string, ExactRoute[]>;
  /** Of several holds with common routes, the one with the highest preference serves them, then the one with the first place. */
  readonly preference: () => number;
  readonly place: number;
  state: 'bound' | 'open' | 'closed';
  /** Requests in progress. */
  active: number;
  /** Called when the last request in progress is answered. */
  onIdle: (() => void) | undefined;
};

type ExactRoute = { readonly route: Route; readonly isCommon: boolean };

type CompiledRoute = { readonly pattern: PathPattern; readonly route: Route };

/** `holds` are all of the server, with the returned one as soon as it is added. */
export function holdOf(
  holds: readonly Hold[],
  graph: number,
  entrance: Entrance | undefined,
  { routes, preference }: CommonRoutes,
): Hold {
  const all = () => openEntrances(holds);
  const common =
    entrance === undefined
      ? []
      : routes.map(({ handler, ...route }) => ({
          pattern: compilePath(route.path),
          route: { ...route, handler: handler(entrance, all) },
        }));
  const exact = new Map<string, ExactRoute[]>();
  for (const compiled of common) addExact(exact, compiled, true);
  return {
    graph,
    entrance,
    routes: [],
    common,
    exact,
    preference: () => (entrance === undefined ? 0 : preference(entrance)),
    place: placeIn(holds, entrance),
    state: 'bound',
    active: 0,
    onIdle: undefined,
  };
}

/** The receivers of a pipeline keep their place when a reload replaces them. */
function placeIn(holds: readonly Hold[], entrance: Entrance | undefined): number {
  const former = holds.find((hold) => hold.entrance?.pipeline.id === entrance?.pipeline.id);
  return former?.place ?? Math.max(OWN, ...holds.map(({ place }) => place)) + 1;
}

/** The place of a receiver's own routes. */
const OWN = 0;

/** In the order of their places; those of one place in the order of their graphs. */
function openEntrances(holds: readonly Hold[]): Entrance[] {
  const open = holds.filter(({ state }) => state === 'open');
  return open.sort((a, b) => a.place - b.place).flatMap(({ entrance }) => entrance ?? []);
}

function addExact(
  exact: Map<string, ExactRoute[]>,
  { pattern, route }: CompiledRoute,
  isCommon: boolean,
): void {
  if (pattern.segments !== undefined) return;
  const known = exact.get(pattern.path) ?? [];
  exact.set(pattern.path, known);
  // The receiver's own routes come first.
  const own = known.filter((other) => !other.isCommon).length;
  known.splice(isCommon ? known.length : own, 0, { route, isCommon });
}

/** Throws if another receiver of the same graph serves the route on this endpoint. */
export function addRoute(endpoint: string, holds: readonly Hold[], hold: Hold, route: Route): void {
  const isTaken = holds.some(
    (other) =>
      other.graph === hold.graph &&
      other.state !== 'closed' &&
      other.routes.some(
        ({ route: { method, path } }) => method === route.method && path === route.path,
      ),
  );
  if (isTaken) {
    throw new Error(
      `${route.method} ${route.path} is already served on ${endpoint}: ` +
        'two receivers of one type need endpoints of their own',
    );
  }
  const compiled = { pattern: compilePath(route.path), route };
  hold.routes.push(compiled);
  addExact(hold.exact, compiled, false);
}

/** The routes of open holds as `POST /path`. */
export function routesOf(holds: readonly Hold[]): string[] {
  const open = holds.filter(({ state }) => state === 'open');
  const all = [...open.flatMap(({ routes }) => routes), ...open.flatMap(({ common }) => common)];
  const shown = all.filter(({ route }) => route.hidden !== true);
  return [...new Set(shown.map(({ route }) => `${route.method} ${route.path}`))];
}

/** Resolves when the hold's requests are answered, or at the deadline. */
export function finished(hold: Hold, deadline: AbortSignal): Promise<void> {
  if (hold.active === 0 || deadline.aborted) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  hold.onIdle = resolve;
  deadline.addEventListener('abort', () => resolve(), { once: true });
  return promise;
}

/** The route of a request, or the refusal that answers it. */
export function find(holds: readonly Hold[], method: string, path: string): Found {
  const exact = openWithoutParameters(holds, method, path);
  if (exact !== undefined) return entered(exact.hold, exact.route, {});
  const candidates = matching(holds, path);
  const [nearest] = candidates;
  if (nearest === undefined) {
    const message = notServed(path, (other) => matching(holds, other).length > 0);
    return {
      refusal: new Refusal('not_found', message),
      renderRefusal: withReasonPhrase(renderEnvelopeRefusal),
    };
  }
  const chosen = candidates.find(({ route }) => serves(route.method, method));
  const { renderRefusal } = (chosen ?? nearest).route;
  if (chosen === undefined) {
    const hint = wrongMethodHint(method, path);
    return {
      refusal: notAllowed(candidates, hint),
      renderRefusal: withReasonPhrase(renderRefusal),
    };
  }
  const { hold, route } = chosen;
  if (hold.state !== 'open') {
    const refusal = new Refusal('unavailable', 'The service is stopping. Try again.', {
      retryAfterMs: 1000,
    });
    return { refusal, renderRefusal };
  }
  const params = decodeParams(chosen.params);
  if (params === undefined) {
    const refusal = new Refusal('invalid_request', 'The path has an invalid percent escape.');
    return { refusal, renderRefusal };
  }
  return entered(hold, route, params);
}

/** Exporters of OpenTelemetry log the reason phrase of an answer, not its body. The messages of this file are ASCII and static. */
function withReasonPhrase(render: RenderRefusal): RenderRefusal {
  return (refusal, head) => ({ ...render(refusal, head), reasonPhrase: refusal.message });
}

function entered(hold: Hold, route: Route, params: Record<string, string>): Found {
  hold.active++;
  const done = (): void => {
    hold.active--;
    if (hold.active === 0) hold.onIdle?.();
  };
  const { handler, renderRefusal, oneAtATime = false } = route;
  return { handler, params, renderRefusal, oneAtATime, done };
}

/**
 * The first in the order of precedence, if an open hold serves the method and a path without parameters: nearly every request, so it is found
 * without a list of candidates.
 */
function openWithoutParameters(
  holds: readonly Hold[],
  method: string,
  path: string,
): { hold: Hold; route: Route } | undefined {
  let found: (Ranked & { readonly route: Route }) | undefined;
  let foundRank = -1;
  for (const hold of holds) {
    if (hold.state !== 'open') continue;
    for (const { route, isCommon } of hold.exact.get(path) ?? NONE) {
      if (!serves(route.method, method)) continue;
      const rank = isCommon ? hold.preference() : 0;
      const one = { hold, route, isCommon };
      if (found !== undefined && (rank - foundRank || byPlace(found, one)) <= 0) continue;
      found = one;
      foundRank = rank;
    }
  }
  return found;
}

const NONE: readonly ExactRoute[] = [];

type Ranked = { readonly hold: Hold; readonly isCommon: boolean };

type Candidate = Ranked & {
  readonly route: Route;
  readonly params: Record<string, string>;
};

/** In the order of precedence. */
function matching(holds: readonly Hold[], path: string): Candidate[] {
  const segments = path.split('/');
  const newestOpen = Math.max(...holds.map(({ graph, state }) => (state === 'open' ? graph : -1)));
  const candidates: Candidate[] = [];
  for (const hold of holds) {
    if (hold.state === 'bound') continue;
    // A closed hold answers 503 only while no newer graph is open. A receiver that a reload kept is still open.
    if (hold.state === 'closed' && hold.graph < newestOpen) continue;
    for (const routes of [hold.routes, hold.common]) {
      for (const { pattern, route } of routes) {
        const params = matchPath(pattern, path, segments);
        if (params === undefined) continue;
        candidates.push({ hold, route, params, isCommon: routes === hold.common });
      }
    }
  }
  return candidates.length < 2 ? candidates : candidates.sort(byPrecedence);
}

/** Open before closed, a path without parameters before one with them, the preference of common routes, the place, the newest graph. */
function byPrecedence(a: Candidate, b: Candidate): number {
  return rank(b) - rank(a) || byPlace(a, b);
}

/**
 * Of common routes, those of the first receiver: a reload that replaces another one would else move them to its store. Then those of
 * the newest graph.
 */
function byPlace(a: Ranked, b: Ranked): number {
  return placeOf(a) - placeOf(b) || b.hold.graph - a.hold.graph;
}

function placeOf({ hold, isCommon }: Ranked): number {
  return isCommon ? hold.place : OWN;
}

function rank({ hold, params, isCommon }: Candidate): number {
  const open = hold.state === 'open' ? 2 * EXACT : 0;
  const exact = Object.keys(params).length === 0 ? EXACT : 0;
  return open + exact + (isCommon ? hold.preference() : 0);
}

/** Above every preference. */
const EXACT = 8;

function serves(routeMethod: string, method: string): boolean {
  return routeMethod === method || (routeMethod === 'GET' && method === 'HEAD');
}

function notAllowed(candidates: readonly Candidate[], hint: string): Refusal {
  const methods = new Set(candidates.map(({ route }) => route.method));
  if (methods.has('GET')) methods.add('HEAD');
  const allow = [...methods].sort().join(', ');
  return new Refusal('method_not_allowed', `This path takes ${allow}.${hint}`, { allow });
}
