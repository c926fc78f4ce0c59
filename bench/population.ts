import { config } from '../extensions/sqlite/config.ts';
import { openStore } from '../extensions/sqlite/open-store.ts';
import { systemClock } from '../src/component/clock.ts';
import type { Logger, Metrics } from '../src/component/component.ts';

/** How many projects and keys a store holds before the daemon starts, and how many of them send. */
export type Population = {
  readonly projects: number;
  readonly keysPerProject: number;
  readonly senders: number;
};

/** Keys that are made at the same time: they share transactions. */
const TOGETHER = 1000;
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const UNCOUNTED: Metrics = {
  counter: () => ({ add() {} }),
  histogram: () => ({ record() {} }),
  gauge: () => () => undefined,
};

/** Makes a store in the directory; resolves with the keys of those who send, from all over it. */
export async function populate(directory: string, population: Population): Promise<string[]> {
  const { projects, keysPerProject, senders } = population;
  const opened = await openStore(
    { clock: systemClock, logger: SILENT, metrics: UNCOUNTED },
    config.parse({ directory }),
  );
  try {
    const { store } = opened;
    const ids = await inGroups(projects, async (i) => (await store.projects.create(`p${i}`)).id);
    const tokens = await inGroups(projects * keysPerProject, async (i) => {
      const projectId = ids[i % ids.length] ?? '';
      return (await store.keys.create({ projectId })).token;
    });
    const step = Math.max(1, Math.floor(tokens.length / senders));
    return tokens.filter((_token, i) => i % step === 0).slice(0, senders);
  } finally {
    await opened.close();
  }
}

async function inGroups<T>(count: number, make: (i: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) {
    const start = made.length;
    const size = Math.min(TOGETHER, count - start);
    made.push(...(await Promise.all(Array.from({ length: size }, (_, i) => make(start + i)))));
  }
  return made;
}
