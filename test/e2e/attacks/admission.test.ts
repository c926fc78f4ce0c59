import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../daemon.ts';
import { HOLDING } from './attacks.ts';
import { sideBySide } from './side-by-side.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

/** Requests that hold memory; all attacks, and longer, are in `admission.long.ts` and `side-by-side.long.ts`. */

t.setTimeout(120_000);

const HOLD_MS = 500;

t.test('requests that hold memory do not harm a client of another project', async (t) => {
  const daemon = await startDaemon(t);
  const victim = victimOf(daemon, await victimKey(daemon), 20);
  t.teardown(victim.close);
  for (const name of [
    '12 sockets send 20 MiB of 24 MiB and then nothing',
    '1,540 chunked requests of one byte',
  ]) {
    const { statuses, slowdown } = await beside(victim, async () => {
      const close = await HOLDING[name]?.({ ...daemon, key: daemon.key, grpc: '' });
      await sleep(HOLD_MS);
      close?.();
    });
    t.same(statuses, ['202'], name);
    holdSlowdown(t, slowdown, name);
  }
});

t.test('bodies of 1.1 MB on 32 connections of one key are never refused', async (t) => {
  t.same(await sideBySide(await startDaemon(t), 1), { 202: 32 });
});
