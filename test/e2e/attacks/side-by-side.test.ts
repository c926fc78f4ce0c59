import { Agent } from 'node:http';
import t from 'tap';
import { send } from '../client.ts';
import { startDaemon } from '../daemon.ts';
import { largeBody } from './attacks.ts';

/** Valid bodies that arrive beside each other, and together exceed the limit of bytes in flight. */

const CONNECTIONS = 32;
const ROUNDS = 4;

const FRAMINGS = {
  'a declared length': {},
  'chunks of unknown length': { 'transfer-encoding': 'chunked' },
};

for (const [name, framing] of Object.entries(FRAMINGS)) {
  t.test(
    `bodies of 1.1 MB with ${name} on ${CONNECTIONS} connections of one key are never refused`,
    async (t) => {
      const daemon = await startDaemon(t);
      const text = largeBody(205).toString();
      t.ok(text.length > 1_100_000 && text.length < 1_200_000, `${text.length} bytes`);
      const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
      t.teardown(() => agent.destroy());
      const headers = { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' };
      const statuses: Record<number, number> = {};
      let sent = 0;
      const client = async (): Promise<void> => {
        for (let i = 0; i < ROUNDS; i++) {
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
      t.same(statuses, { 202: CONNECTIONS * ROUNDS });
    },
  );
}
