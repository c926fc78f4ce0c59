import { createServer } from 'node:net';
import type { ServiceConfig } from '../config/config.ts';
import { visit } from '../config/shape.ts';
import { addressOf, cannotListen } from '../net/address.ts';
import { parseEndpoint } from '../schema/fields.ts';

/** Where the receivers of the pipelines listen, as written. */
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

/** Those of a new configuration whose port the workers do not have by now. */
export function addedEndpoints(before: ServiceConfig, after: ServiceConfig): string[] {
  const ports = new Set(sharedEndpoints(before).map((endpoint) => parseEndpoint(endpoint)?.port));
  return sharedEndpoints(after).filter((endpoint) => !ports.has(parseEndpoint(endpoint)?.port));
}

/**
 * Rejects with a sentence where somebody else listens. Workers share a port with every process of their
 * user that wants to: another daemon there would take a part of the connections, and nobody would know.
 */
export async function assertFree(endpoints: readonly string[]): Promise<void> {
  for (const endpoint of endpoints) {
    const parsed = parseEndpoint(endpoint);
    if (parsed === undefined) throw new Error(`${endpoint} is no host:port`);
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
