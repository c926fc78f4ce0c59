import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { PLAIN } from '../helper/plain-process.ts';
import { until } from '../helper/until.ts';
import { send } from './client.ts';

t.test('the daemon of a test file that is killed ends with it', async (t) => {
  const helper = JSON.stringify(join(import.meta.dirname, 'daemon.ts'));
  const script = `import { prepareDaemon } from ${helper};
    const daemon = await prepareDaemon();
    await daemon.start();
    const { health, directory } = daemon;
    process.stdout.write(JSON.stringify({ health, directory, pid: daemon.pid() }));`;
  const file = spawn(process.execPath, ['--input-type=module-typescript', '-e', script], {
    env: { ...process.env, ...PLAIN },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [written] = await once(file.stdout, 'data');
  const { health, directory, pid } = JSON.parse(String(written));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const ended = once(file, 'exit');
  file.kill('SIGKILL');
  await ended;
  const answers = (): Promise<boolean> =>
    send(health, { path: '/readyz', timeoutMs: 5_000 }).then(
      () => true,
      () => false,
    );
  try {
    await until(async () => !(await answers()));
  } catch (error) {
    process.kill(pid, 'SIGKILL');
    throw error;
  }
  t.pass('nothing listens at its port');
});
