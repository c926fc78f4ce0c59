import type { QueryValues } from './client.ts';
import { at, get } from './client.ts';
import type { Facet, Stats, Traces } from './types.ts';

/** Reading requests of a project. Every function throws an `ApiFailure`. */
export function readTraces(
  project: string,
  query: QueryValues,
  signal: AbortSignal,
): Promise<Traces> {
  return get(at`/projects/${project}/traces`, { query, signal });
}

export function readFacet(
  project: string,
  query: QueryValues & { readonly field: string },
  signal: AbortSignal,
): Promise<Facet> {
  return get(at`/projects/${project}/facets`, { query, signal });
}

export function readStats(
  project: string,
  query: QueryValues,
  signal: AbortSignal,
): Promise<Stats> {
  return get(at`/projects/${project}/stats`, { query, signal });
}
