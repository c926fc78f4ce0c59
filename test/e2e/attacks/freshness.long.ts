import t from 'tap';
import { startDaemon } from '../daemon.ts';
import { type Flood, flood } from './flood.ts';
import { beside, holdSlowdown, READABLE_MS, readerOf, victimKey } from './victim.ts';

/** A project that sends more than can be stored, and the events of another project that are to be readable. */

t.setTimeout(600_000);
t.jobs = 1;

const MIB = 1_048_576;
const FLOOD_MS = 10_000;

const FLOODS: Readonly<Record<string, Flood>> = {
  'bodies of 20 MiB': { connections: 2, events: 1_000, bytes: 20 * MIB },
  'bodies of 400 KiB with 1,000 events': { connections: 8, events: 1_000, bytes: 400 * 1024 },
};

for (const [name, attack] of Object.entries(FLOODS)) {
  t.test(`events are readable beside a project that sends ${name} without pause`, async (t) => {
    const daemon = await startDaemon(t);
    const reader = readerOf(daemon, await victimKey(daemon), 200);
    t.teardown(reader.close);
    const flooding = () => flood(daemon, attack, FLOOD_MS);
    const { statuses, slowdown } = await beside(reader, flooding, READABLE_MS);
    t.same(statuses, ['202'], 'the other project is always accepted');
    holdSlowdown(t, slowdown, 'large bodies');
  });
}
