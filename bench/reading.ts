import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { measureBeside, measureErasure } from './reading/beside.ts';
import { ABOUT } from './reading/data.ts';
import { measureExports } from './reading/exports.ts';
import { measureReads } from './reading/reads.ts';
import type { StoreName } from './reading/store.ts';
import { fill } from './reading/store.ts';

/**
 * Reading, exporting and erasing what is stored: CPU of the daemon, and of Postgres, for each case, on a store that is filled first.
 *   npm run bench:reading -- [--store sqlite|postgres|both] [--observations 100000] [--only list,facets] [--data DIRECTORY]
 * With a directory the stores are kept in it, and the ones that are there already are used.
 */
const { values: flags } = parseArgs({
  options: {
    store: { type: 'string', default: 'both' },
    observations: { type: 'string', default: '100000' },
    only: { type: 'string', default: '' },
    data: { type: 'string' },
  },
});

const only = flags.only.split(',');
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const stores: readonly StoreName[] =
  flags.store === 'both'
    ? ['sqlite', 'postgres']
    : [flags.store === 'postgres' ? 'postgres' : 'sqlite'];

print(`Data: ${ABOUT}`);
for (const name of stores) {
  const place = flags.data === undefined ? {} : { directory: resolve(flags.data, name) };
  const store = await fill(name, { observations: Number(flags.observations), ...place }, say);
  try {
    if (store.how !== undefined) print(`\n${name}: ${store.how}.`);
    print(`\n## ${name}, ${store.observations.toLocaleString('en')} observations\n`);
    print('| case | CPU: mean / p99 | wall p99 | target |');
    print('|---|---|---|---|');
    const bytes = (await store.bytesOnDisk()) / store.observations;
    print(`| bytes on disk a span | ${bytes.toFixed(0)} B | | |`);
    await store.settled();
    const wanted = (part: string): boolean => only.some((text) => part.includes(text));
    await measureReads(store, print, wanted);
    if (wanted('export')) await measureExports(store, print);
    if (wanted('beside')) await measureBeside(store, print);
    if (wanted('erase')) await measureErasure(store, print);
  } finally {
    await store.stop();
  }
}
