import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { config } from '../extensions/sqlite/config.ts';
import type { OpenSqliteStore } from '../extensions/sqlite/open-store.ts';
import { openSqliteStore } from '../extensions/sqlite/open-store.ts';
import { systemClock } from '../src/component/clock.ts';
import { observe } from '../src/model/formats.ts';
import { aTenant, nativeBatch, nativeEvent } from '../test/helper/batches.ts';
import { aQuery } from '../test/helper/query.ts';
import { recordingLogger, recordingMetrics } from '../test/helper/settings.ts';
import { median } from './median.ts';

/**
 * Payload search in SQLite: the store with the option against the store without it, in turns. Traces of ten observations, whose inputs
 * have 300 words and outputs 100, drawn by their rank from 20,000 words and, one in twenty, from all numbers.
 *
 *   node bench/payload-search.ts [TRACES]
 */
const TRACES = Number(process.argv[2] ?? 2000);
const BATCH = 10;
const WORDS = 20_000;
const ROUNDS = 3;

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const words = Array.from({ length: WORDS }, (_, i) => `w${i.toString(36)}`);

function text(count: number): string {
  const drawn = Array.from({ length: count }, () => {
    if (Math.random() < 0.05) return Math.floor(Math.random() * 1e12).toString(36);
    return words[Math.floor(WORDS ** Math.random()) - 1] ?? '';
  });
  return drawn.join(' ');
}

function batchOf(first: number, projectId: string) {
  const events = Array.from({ length: BATCH * 10 }, (_, i) => {
    const trace = first + Math.floor(i / 10);
    return nativeEvent({
      ...{ id: `o${trace}-${i}`, trace_id: `t${trace}`, name: 'chat' },
      inputs: { messages: [{ role: 'user', content: text(300) }] },
      outputs: { content: text(100) },
    });
  });
  const source = nativeBatch(events, {
    ...{ tenant: aTenant({ projectId }), receivedAt: Date.now(), encoding: 'gzip' },
    id: `${first}`.padStart(26, '0'),
  });
  return { kind: 'observations' as const, source, observations: observe(source) };
}

type Place = {
  readonly directory: string;
  readonly store: OpenSqliteStore;
  readonly projectId: string;
  writeMs: number;
  waits: number[];
};

async function open(search: object): Promise<Place> {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-search-'));
  const settings = { clock: systemClock, logger: recordingLogger(), metrics: recordingMetrics() };
  const store = await openSqliteStore(settings, config.parse({ directory, search }));
  const [project] = await store.store.projects.list();
  return { directory, store, projectId: project?.id ?? '', writeMs: 0, waits: [] };
}

async function write(place: Place, first: number): Promise<void> {
  const batch = batchOf(first, place.projectId);
  const begun = performance.now();
  await place.store.store.traces.write(batch);
  const took = performance.now() - begun;
  place.writeMs += took;
  place.waits.push(took);
}

const without = await open({});
const withSearch = await open({ payloads: '4KiB' });
const cpu = process.cpuUsage();
for (let first = 0; first < TRACES; first += BATCH) {
  const places = (first / BATCH) % 2 === 0 ? [without, withSearch] : [withSearch, without];
  for (const place of places) await write(place, first);
}
const indexing = performance.now();
while ((await withSearch.store.store.search.status()).waiting > 0) {
  await new Promise((resolve) => systemClock.after(50, () => resolve(undefined)));
}
const behindMs = performance.now() - indexing;
const { user, system } = process.cpuUsage(cpu);

const observations = TRACES * 10;
const perObservation = (ms: number): string => `${((ms / observations) * 1000).toFixed(0)} µs`;
const sizeOf = ({ directory }: Place, prefix: string): string => {
  const files = readdirSync(directory).filter((name) => name.startsWith(prefix));
  const bytes = files.reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
  return `${(bytes / observations).toFixed(0)} bytes`;
};
const p99 = ({ waits }: Place): string =>
  `${(waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.99)] ?? 0).toFixed(1)} ms`;

print(`${observations} observations, ${text(5)} …`);
print(
  `write, an observation: ${perObservation(without.writeMs)} without, ${perObservation(withSearch.writeMs)} with`,
);
print(`write of 100 observations, p99: ${p99(without)} without, ${p99(withSearch)} with`);
print(`index behind the last write by ${(behindMs / 1000).toFixed(1)} s`);
print(`CPU of all, an observation: ${perObservation((user + system) / 1000)}`);
print(`store.db ${sizeOf(withSearch, 'store')}, search.db ${sizeOf(withSearch, 'search')}`);

for (const query of ['w0', 'wfa', '"w0 w1"', 'w0 w1 w2', 'wabsent', '-w0', '"w5 w6 w7 w8"']) {
  for (const [name, place] of Object.entries({ without, with: withSearch })) {
    const times: number[] = [];
    let found = '';
    for (let round = 0; round < ROUNDS; round++) {
      const begun = performance.now();
      let cursor: string | null | undefined;
      let traces = 0;
      let steps = 0;
      let longest = 0;
      do {
        const page = await place.store.store.traces.listTraces(place.projectId, {
          ...{ limit: 50 - traces, query: aQuery(query) },
          ...(cursor === undefined || cursor === null ? {} : { cursor }),
        });
        traces += page.items.length;
        longest = Math.max(longest, page.spentMs);
        steps++;
        cursor = page.nextCursor;
      } while (cursor !== null && traces < 50);
      times.push(performance.now() - begun);
      found = `${traces} traces, ${steps} steps, longest ${longest.toFixed(1)} ms`;
    }
    print(`${query} ${name}: ${median(times).toFixed(1)} ms, ${found}`);
  }
}
for (const { store, directory } of [without, withSearch]) {
  await store.close();
  rmSync(directory, { recursive: true });
}
