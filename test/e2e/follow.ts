import type { ClientRequest } from 'node:http';
import { request } from 'node:http';
import type { Test } from 'tap';
import { record } from './client.ts';
import type { Target } from './journal.ts';

type ServerEvent = { readonly type: string; readonly data: Record<string, unknown> };

/** A client of a stream: the events that came, and its end. */
export async function follow(t: Test, { base, key }: Target, query: string) {
  const events: ServerEvent[] = [];
  let hasEnded = false;
  let outgoing: ClientRequest | undefined;
  const status = await new Promise<number>((resolve, reject) => {
    outgoing = request(
      `${base}/api/v1/traces/stream${query}`,
      { headers: { authorization: `Bearer ${key}` }, agent: false },
      (incoming) => {
        let text = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (chunk: string) => {
          text += chunk;
          const parts = text.split('\n\n');
          text = parts.pop() ?? '';
          for (const part of parts) {
            const [, type, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? [];
            if (type !== undefined) events.push({ type, data: record(JSON.parse(data ?? '')) });
          }
        });
        incoming.on('end', () => {
          hasEnded = true;
        });
        incoming.on('error', () => {});
        resolve(incoming.statusCode ?? 0);
      },
    );
    outgoing.on('error', reject);
    outgoing.end();
  });
  t.teardown(() => outgoing?.destroy());
  return {
    ...{ status, events },
    hasEnded: () => hasEnded,
    close: () => outgoing?.destroy(),
    ids: () => events.map(({ data }) => data.id),
  };
}
