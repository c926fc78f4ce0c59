import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from '../daemon.ts';
import { victimOf } from './victim.ts';

export const PAGE = 8192;

export function dataOf(daemon: Daemon): string {
  return join(daemon.directory, 'data');
}

/** Removes the data directory, also while the daemon adds files to it. */
export function removeData(daemon: Daemon): void {
  rmSync(dataOf(daemon), { recursive: true, maxRetries: 5, retryDelay: 20 });
}

export async function sendOne(daemon: Daemon, id: string, inputs = 'hello'): Promise<number> {
  const event = { inputs, id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok' };
  const answer = await daemon.call({
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ events: [event] }),
  });
  return answer.status;
}

/** The exit status of a daemon that ends on its own. */
export async function endOf(daemon: Daemon): Promise<number | null> {
  for (let waited = 0; daemon.running() && waited < 20_000; waited += 50) await sleep(50);
  return daemon.running() ? null : (await daemon.end('SIGKILL')).code;
}

/** The statuses of a client, with the requests that it sent before and after the files were gone. */
export async function around(daemon: Daemon, remove: () => void) {
  const victim = victimOf(daemon, daemon.key, 20);
  const before = await victim.watch(500);
  remove();
  const after = await victim.during(async () => {
    await endOf(daemon);
  });
  victim.close();
  return { before: before.statuses, after: after.statuses };
}

export type Damage = (directory: string) => void;

export function overwrite(file: string, from: number, to: number, value = 0): void {
  const content = readFileSync(file);
  content.fill(value, from, Math.min(to, content.length));
  writeFileSync(file, content);
}
