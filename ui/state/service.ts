import { get } from '../api/client.ts';
import type { Receiver } from '../parts/snippet-texts.ts';
import type { Resource } from './resource.ts';
import { useResource } from './resource.ts';

type Service = { readonly receivers: readonly Receiver[] };

/** What the daemon is made of: its receivers and their addresses. */
export function useService(): Resource<Service> {
  return useResource('service', (signal) => get<Service>('/service', { signal }));
}
