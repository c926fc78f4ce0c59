import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

/** A process with a thread in a statement that does not end. */
const STUCK = `
  import { statSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  import { Worker } from 'node:worker_threads';
  import { createThreadEnd, endFirstProcess } from '${join(import.meta.dirname, '../../../src/cli/thread-end.ts')}';
  const endThreads = createThreadEnd();
  const file = process.argv[1];
  new Worker(\`
    const { DatabaseSync } = require('node:sqlite');
    new DatabaseSync(require('node:worker_threads').workerData).exec(
      'CREATE TABLE begun (x);' +
      'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n');
  \`, { eval: true, execArgv: [], workerData: file });
  while (!(statSync(file, { throwIfNoEntry: false })?.size > 0)) await setTimeout(10);
  if (await endThreads()) process.exit(99);
  endFirstProcess(7);
  process.kill(process.pid, 'SIGKILL');
  process.exit(98);
`;
const NODE = [process.execPath, '--input-type=module', '--eval', STUCK];

function run(command: readonly string[]) {
  const [file = '', ...args] = command;
  const { status, signal, stderr } = spawnSync(file, args, {
    timeout: 20_000,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  });
  return { status, signal, stderr };
}

t.test('a process kills itself if a thread does not end', async (t) => {
  const ended = run([...NODE, join(t.testdir({}), 'store.db')]);
  t.match(ended, { status: null, signal: 'SIGKILL' });
});

/** The first process of a namespace, as in a container. */
const NAMESPACE = ['unshare', '--map-root-user', '--pid', '--fork', '--kill-child'];
const skip = run([...NAMESPACE, 'true']).status === 0 ? false : 'the system permits no namespace';

t.test('process 1, to which the kernel delivers no SIGKILL, ends too', { skip }, async (t) => {
  const ended = run([...NAMESPACE, ...NODE, join(t.testdir({}), 'store.db')]);
  t.match(ended, { status: 7, signal: null });
});
