import type { Test } from 'tap';
import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock } from '../../../src/component/component.ts';
import { eventually } from '../../e2e/client.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';

const server = await postgresDatabases(t);
const OPTIONS = { name: 'queue', branches: ['a'], maxBytes: 1e9 };

const shifted = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });

/** A process whose clock is wrong, and one whose clock is right. */
async function two(t: Test, wrongBy: number) {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const [wrong, right] = [await place.open(shifted(wrongBy)), await place.open(systemClock)];
  return { first: await wrong.openQueue(OPTIONS), second: await right.openQueue(OPTIONS) };
}

for (const wrongBy of [90_000, -90_000]) {
  t.test(`a retry is on time if the clock of its process is ${wrongBy} ms off`, async (t) => {
    const { first, second } = await two(t, wrongBy);
    await first.append(nativeBatch(1));
    const [entry] = await first.lease('a', 1, 1e9);
    if (entry === undefined) throw new Error('no entry was leased');
    await first.nack('a', entry, 1000, 'later');
    second.onAvailable('a', () => {});
    const lease = async (): Promise<number> => {
      // An append announces the branch, as the regular look does.
      await second.append(nativeBatch(1));
      const entries = await second.lease('a', 10, 1e9);
      await second.ack('a', entries);
      return entries.filter(({ attempts }) => attempts === 1).length;
    };
    t.equal(await lease(), 0, 'it is not early');
    await eventually(lease, (found) => found === 1, 'the retry', 5_000);
  });

  t.test(
    `a batch waits from its append if the clock of the gateway is ${wrongBy} ms off`,
    async (t) => {
      const { first, second } = await two(t, wrongBy);
      const batch = nativeBatch(1, { receivedAt: Date.now() + wrongBy });
      await first.append(batch);
      t.same(await second.waitingFor(0, 10), [batch.id]);
      t.same(await second.waitingFor(60_000, 10), []);
      t.same(await first.waitingFor(0, 10), [batch.id]);
      t.same(await first.waitingFor(60_000, 10), []);
    },
  );
}
