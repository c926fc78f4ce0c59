import type { QueryValues } from './address.ts';
import { at, get } from './client.ts';
import type { Facet, SessionDetail, Sessions, Stats, Traces, UserDetail, Users } from './types.ts';

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

export function readSessions(
  project: string,
  query: QueryValues,
  signal: AbortSignal,
): Promise<Sessions> {
  return get(at`/projects/${project}/sessions`, { query, signal });
}

export function readSession(
  project: string,
  id: string,
  query: QueryValues,
  signal: AbortSignal,
): Promise<SessionDetail> {
  // It has the inputs and outputs of traces.
  return get(at`/projects/${project}/sessions/${id}`, { query, signal, isExact: true });
}

export function readUsers(
  project: string,
  query: QueryValues,
  signal: AbortSignal,
): Promise<Users> {
  return get(at`/projects/${project}/users`, { query, signal });
}

export function readUser(project: string, id: string, signal: AbortSignal): Promise<UserDetail> {
  return get(at`/projects/${project}/users/${id}`, { signal });
}
