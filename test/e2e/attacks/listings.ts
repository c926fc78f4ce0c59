import type { Test } from 'tap';
import type { Answer } from '../client.ts';
import { eventually, list, record } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { startDaemon } from '../daemon.ts';
import type { Victim } from './victim.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

export async function attacked(t: Parameters<typeof startDaemon>[0]) {
  const daemon = await startDaemon(t);
  const victim = victimOf(daemon, await victimKey(daemon), 20);
  t.teardown(victim.close);
  return { daemon, victim };
}

export async function postEvents(daemon: Daemon, events: readonly object[]): Promise<Answer> {
  return daemon.call({
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
    timeoutMs: 60_000,
  });
}

export function span(id: string, more: object = {}): object {
  return { id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok', ...more };
}

/** Traces of the attacker, so that its listings have something to answer. */
export async function fill(daemon: Daemon, traces: number): Promise<void> {
  const events = Array.from({ length: traces }, (_, i) => span(`attacker-${i}`, { name: 'trace' }));
  await postEvents(daemon, events);
  await listed(daemon, traces);
}

export async function listed(daemon: Daemon, traces: number): Promise<readonly unknown[]> {
  const ask = () => daemon.call({ path: '/api/v1/traces?limit=1000', timeoutMs: 60_000 });
  const found = ({ body }: Answer) => list(record(JSON.parse(String(body))).traces);
  const answer = await eventually(
    ask,
    (answered) => found(answered).length >= traces,
    'traces',
    120_000,
  );
  return found(answer);
}

export async function unharmed(
  t: Test,
  victim: Victim,
  attack: () => Promise<unknown>,
  what: string,
): Promise<void> {
  const { statuses, slowdown } = await beside(victim, attack);
  t.same(statuses, ['202'], `ingestion goes on beside ${what}`);
  holdSlowdown(t, slowdown, 'reads');
}
