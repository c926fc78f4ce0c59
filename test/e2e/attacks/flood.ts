import { setTimeout as sleep } from 'node:timers/promises';
import { sendRaw } from '../client.ts';
import type { Daemon } from '../daemon.ts';

/** Replaced in each request. */
const TRACE = 'trace-00';
/** A client waits this long after a refusal. */
const PAUSE_MS = 100;

export type Flood = {
  readonly connections: number;
  /** Events of a request. */
  readonly events: number;
  /** Bytes of a request. */
  readonly bytes: number;
};

/** Sends valid bodies without pause, each with a trace of its own; resolves with the number of answers by status. */
export async function flood(
  daemon: Daemon,
  { connections, events, bytes }: Flood,
  ms: number,
): Promise<Readonly<Record<number, number>>> {
  const next = requestsOf(daemon.key, events, bytes);
  const statuses: Record<number, number> = {};
  const end = performance.now() + ms;
  const client = async (): Promise<void> => {
    while (performance.now() < end) {
      const { status = 0 } = await sendRaw(daemon.base, next(), 60_000, true);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 202) await sleep(PAUSE_MS);
    }
  };
  await Promise.all(Array.from({ length: connections }, client));
  return statuses;
}

function requestsOf(key: string, count: number, bytes: number): () => Buffer {
  const inputs = 'word '.repeat(Math.floor((bytes / count - 100) / 5));
  const event = { trace_id: TRACE, operation: 'finish', kind: 'llm', status: 'ok', inputs };
  const events = Array.from({ length: count }, (_, i) => JSON.stringify({ id: `e${i}`, ...event }));
  const body = Buffer.from(`{"events":[${events.join(',')}]}`);
  const head =
    'POST /api/v1/observations/batch HTTP/1.1\r\nhost: localhost\r\n' +
    `authorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
    `content-length: ${body.length}\r\n\r\n`;
  const template = Buffer.concat([Buffer.from(head), body]);
  const places: number[] = [];
  for (let at = template.indexOf(TRACE); at >= 0; at = template.indexOf(TRACE, at + 1)) {
    places.push(at);
  }
  let made = 0;
  return () => {
    const request = Buffer.from(template);
    const trace = String(++made).padStart(TRACE.length, '0');
    for (const at of places) request.write(trace, at);
    return request;
  };
}
