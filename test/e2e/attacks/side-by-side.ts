import { Agent } from 'node:http';
import { send } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { largeBody } from './attacks.ts';

const CONNECTIONS = 32;

/**
 * Sends valid bodies of 1.1 MB of one key on 32 connections, which together exceed the limit of bytes in flight.
 * Returns the number of answers by status.
 */
export async function sideBySide(
  daemon: Daemon,
  rounds: number,
  framing: Readonly<Record<string, string>> = {},
): Promise<Record<number, number>> {
  const text = largeBody(205).toString();
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const headers = { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' };
  const statuses: Record<number, number> = {};
  let sent = 0;
  const client = async (): Promise<void> => {
    for (let i = 0; i < rounds; i++) {
      // An equal body would be recognized as a retry.
      const body = text.replace('"e0"', `"first of ${++sent}"`);
      const { status } = await send(daemon.base, {
        ...{ method: 'POST', path: '/api/v1/observations/batch', body, agent },
        ...{ headers: { ...headers, ...framing }, timeoutMs: 60_000 },
      });
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  agent.destroy();
  return statuses;
}
