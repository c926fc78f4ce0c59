import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { eventually } from '../../e2e/client.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { sweepQueue } from '../../helper/sweeping.ts';

const PROCESS = fileURLToPath(new URL('../../helper/sweeping-process.ts', import.meta.url));
const server = await postgresDatabases(t);

t.test('a frozen sweeper loses its lease within 15 s, and adds no job when it thaws', async (t) => {
  const url = await server.database();
  const place = await queueDatabase(t, url);
  const queues = await place.open(systemClock);
  const queue = await queues.openQueue({ name: 'in', branches: ['jobs'], maxBytes: 1e9 });
  const batch = nativeBatch(1);
  await queue.append(batch);
  await place.pool.query('UPDATE queue_entries SET entered_at = 0');

  const child = spawn(process.execPath, [PROCESS, url], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const printed: string[] = [];
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => printed.push(line));
  await once(lines, 'line');
  child.kill('SIGSTOP');
  t.same(printed, ['sweeping']);
  const frozenAt = Date.now();

  const added: string[] = [];
  const sweeper = await sweepQueue(queues, recordingLogger(), {
    count: async () => added.length,
    announced: async () => new Set(added),
    addAll: async (jobs) => void added.push(...jobs.map(({ batchId }) => batchId)),
    recreateLost: async () => 0,
  });
  t.teardown(() => sweeper.stop());
  await eventually(
    async () => added,
    (all) => all.length > 0,
    'a sweep by another process',
    15_000,
  );
  t.same(added, [batch.id]);
  t.ok(Date.now() - frozenAt > 5_000, 'the lease was in force when the process froze');

  child.kill('SIGCONT');
  const lost = 'Lease lost; another process does the work';
  await eventually(
    async () => printed,
    (all) => all.includes(lost),
    'the lost lease in the log',
  );
  t.same(printed, ['sweeping', lost]);
});
