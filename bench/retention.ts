import { p99 } from './compare.ts';
import { Load } from './load.ts';
import { otlp, pooled, wireRequest } from './payloads.ts';
import { type Server, startAccepting } from './servers.ts';

const CONNECTIONS = 32;
const WINDOW = 300;
const WARMING_WINDOWS = 2;
/** So many at least, that a percentile means something. */
const LEAST_WINDOWS = 8;
const payload = pooled(otlp(100, 560), 64);

/**
 * How long an acknowledgement takes under load while what is past its time is removed, against the same
 * process when nothing is left to remove.
 */
export async function retention(print: (text: string) => void, quick: boolean): Promise<void> {
  const observations = quick ? 100_000 : 1_000_000;
  const server = await startAccepting({ expired: observations });
  const removed = async () => (await server.removed?.()) ?? 0;
  try {
    for (let i = 0; i < WARMING_WINDOWS; i++) await window(server);
    const beside: number[] = [];
    const [before, started] = [await removed(), performance.now()];
    let now = before;
    while (now < observations) {
      const latencies = await window(server);
      now = await removed();
      // A removal that ends within a window affected only a part of it.
      if (now < observations) beside.push(...latencies);
    }
    const rate = (now - before) / ((performance.now() - started) / 1000);
    const alone: number[] = [];
    const windows = Math.max(LEAST_WINDOWS, beside.length / WINDOW);
    for (let i = 0; i < windows; i++) alone.push(...(await window(server)));
    if (beside.length === 0) throw new Error('everything was removed before it could be measured');
    const [removing, normal] = [p99(beside), p99(alone)];
    print(
      `| acknowledgement beside the removal of ${observations} observations, p99 | ` +
        `${removing.toFixed(1)} ms, alone ${normal.toFixed(1)} ms: **${(removing / normal).toFixed(2)}** ` +
        `(${beside.length} requests; ${rate.toFixed(0)} removed a second) | ≤ 2 |`,
    );
  } finally {
    await server.stop();
  }
}

async function window(server: Server): Promise<number[]> {
  const [key = server.key] = server.keys ?? [];
  const requests = Array.from({ length: WINDOW }, () => wireRequest(payload, payload.next(), key));
  const load = await Load.open(server.port, CONNECTIONS);
  try {
    return await load.run(requests);
  } finally {
    load.close();
  }
}
