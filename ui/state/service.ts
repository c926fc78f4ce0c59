import { get } from '../api/client.ts';
import type { Receiver } from '../parts/snippet-texts.ts';
import type { Resource } from './resource.ts';
import { useResource } from './resource.ts';

type Service = { readonly receivers: readonly Receiver[] };

/** The receivers of the daemon and their addresses. */
export function useService(): Resource<Service> {
  return useResource('service', (signal) => get<Service>('/service', { signal }));
}
