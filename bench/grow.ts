import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { HOW_GROWN } from './reading/copying.ts';
import { grow } from './reading/grow.ts';
import type { StoreName } from './reading/store.ts';
import { NOTE } from './reading/store.ts';

/**
 * Makes a store of ten million observations of one with a million that `bench/reading.ts` keeps, in minutes instead of hours:
 *   node bench/reading.ts --observations 1000000 --data DIRECTORY/1m
 *   node bench/grow.ts --from DIRECTORY/1m --to DIRECTORY/10m [--times 10] [--store sqlite|postgres|both]
 *   node bench/reading.ts --data DIRECTORY/10m
 */
const { values: flags } = parseArgs({
  options: {
    from: { type: 'string', default: '' },
    to: { type: 'string', default: '' },
    times: { type: 'string', default: '10' },
    store: { type: 'string', default: 'both' },
  },
});

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const both: readonly StoreName[] = ['sqlite', 'postgres'];
const stores = flags.store === 'both' ? both : both.filter((name) => name === flags.store);
say(HOW_GROWN);
for (const name of stores) {
  const [from, to] = [resolve(flags.from, name), resolve(flags.to, name)];
  if (!existsSync(resolve(from, NOTE))) throw new Error(`${from} has no store of the benchmark`);
  if (existsSync(to)) throw new Error(`${to} is there already`);
  say(name);
  await grow(name, [from, to], Number(flags.times), say);
}
