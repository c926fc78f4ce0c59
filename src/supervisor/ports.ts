import { createServer } from 'node:net';
import type { ServiceConfig } from '../config/config.ts';
import { visit } from '../config/shape.ts';
import { addressOf, cannotListen } from '../net/address.ts';
import { parseEndpoint } from '../schema/fields.ts';

/** The endpoints of the pipelines' receivers, as written in the configuration. */
export function sharedEndpoints(config: ServiceConfig): string[] {
  const used = new Set(config.service.pipelines.flatMap(({ receivers }) => receivers));
  const endpoints = new Set<string>();
  for (const id of used) {
    const receiver = config.receivers.get(id);
    if (receiver === undefined) continue;
    visit(receiver.factory.config, receiver.config, (_field, value, marks) => {
      if (marks.listens !== undefined && typeof value === 'string') endpoints.add(value);
    });
  }
  return [...endpoints];
}

/** The endpoints of a new configuration whose ports the workers do not hold. */
export function addedEndpoints(before: ServiceConfig, after: ServiceConfig): string[] {
  const ports = new Set(sharedEndpoints(before).map((endpoint) => parseEndpoint(endpoint)?.port));
  return sharedEndpoints(after).filter((endpoint) => !ports.has(parseEndpoint(endpoint)?.port));
}

/**
 * Rejects when another process listens on one of the endpoints. Workers open their ports for sharing, and any
 * process of the same user can join: another daemon would silently take a part of the connections.
 */
export async function assertFree(endpoints: readonly string[]): Promise<void> {
  for (const endpoint of endpoints) {
    const parsed = parseEndpoint(endpoint);
    if (parsed === undefined) throw new Error(`${endpoint} is not a host:port`);
    const host = await addressOf(parsed.host);
    try {
      await listenOnce(host, parsed.port);
    } catch (error) {
      throw cannotListen(endpoint, error);
    }
  }
}

function listenOnce(host: string, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const probe = createServer((socket) => socket.destroy());
  probe.once('error', reject);
  probe.listen({ host, port }, () => probe.close(() => resolve()));
  return promise;
}
