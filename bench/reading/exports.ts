import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { memory } from '../process-cost.ts';
import type { FilledStore } from './store.ts';

const EXPORTS = [
  { name: 'observations, JSON lines', query: 'of=observations', target: '≥ 50,000 a CPU-second' },
  { name: 'traces, JSON lines', query: 'of=traces' },
  { name: 'observations, CSV', query: 'of=observations&format=csv' },
  { name: 'observations, Parquet', query: 'of=observations&format=parquet' },
  {
    name: 'observations with payloads, JSON lines',
    query: 'of=observations&payloads=true&limit=100000',
  },
];

/** A row for each form: rows a second of CPU, and how the memory grew. */
export async function measureExports(
  store: FilledStore,
  print: (line: string) => void,
): Promise<void> {
  for (const { name, query, target = '' } of EXPORTS) {
    // The first one warms the code, and memory grows to the size that an export needs: a larger one adds little.
    await exported(store, `${query}&limit=100000`.replace(/(limit=\d+).*&limit=\d+/, '$1'));
    await pause(500);
    const [cpu, rss] = [store.cpuMs(), memory(store.daemon.pid()).peak];
    const begun = performance.now();
    const { rows, bytes } = await exported(store, query);
    const [spent, seconds] = [(store.cpuMs() - cpu) / 1000, (performance.now() - begun) / 1000];
    const grown = (memory(store.daemon.pid()).peak - rss) / 1_048_576;
    const rate = `${Math.round(rows / spent).toLocaleString('en')} rows a CPU-second`;
    const size = `${rows.toLocaleString('en')} rows, ${(bytes / 1_048_576).toFixed(0)} MiB`;
    print(
      `| export ${name} (${size}) | ${rate}, peak of memory +${grown.toFixed(0)} MiB | ${seconds.toFixed(1)} s | ${target} |`,
    );
  }
}

type Exported = { readonly rows: number; readonly bytes: number };

function exported({ daemon, key }: FilledStore, query: string): Promise<Exported> {
  const { hostname: host, port } = new URL(daemon.base);
  const headers = { authorization: `Bearer ${key}` };
  return new Promise((resolve, reject) => {
    request({ host, port, path: `/api/v1/export?${query}`, headers }, (answer) => {
      let bytes = 0;
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      answer.once('error', reject);
      answer.once('end', () => {
        const rows = Number(answer.trailers['tracectl-export-rows']);
        if (answer.statusCode === 200 && rows >= 0) resolve({ rows, bytes });
        else reject(new Error(`the export ended with ${answer.statusCode}`));
      });
    })
      .once('error', reject)
      .end();
  });
}
