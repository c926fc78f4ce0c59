import { get } from '../api/client.ts';
import type { Service } from '../api/types.ts';
import type { Resource } from './resource.ts';
import { useResource } from './resource.ts';

/** The version of the daemon, and the addresses of its receivers. */
export function useService(): Resource<Service> {
  return useResource('service', (signal) => get<Service>('/service', { signal }));
}
