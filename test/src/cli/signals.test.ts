import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { watchProcess } from '../../../src/cli/process-events.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { collect, ROOT } from './cli.ts';

t.test('signals', async (t) => {
  const quiet = createLogger({
    level: 'error',
    repeated_lines: 100,
    encoding: 'json',
    write: () => {},
  });
  const isPending = async (promise: Promise<unknown>) =>
    (await Promise.race([promise, new Promise((resolve) => setImmediate(resolve, 'pending'))])) ===
    'pending';

  await t.test(
    'a second signal within a second is ignored, a later one ends the process',
    async (t) => {
      let now = 1000;
      const events = watchProcess(quiet, () => now);
      t.teardown(() => events.close());
      t.ok(await isPending(events.ended));
      process.emit('SIGINT', 'SIGINT');
      t.equal(await events.ended, 0);
      now += 900;
      process.emit('SIGTERM', 'SIGTERM');
      t.ok(await isPending(events.cutShort));
      now += 200;
      process.emit('SIGTERM', 'SIGTERM');
      t.equal(await events.cutShort, 128 + 15);
    },
  );

  await t.test('a signal ends process 1 of a container while it loads modules', async (t) => {
    const script = (further: string) => `
      import { endWhileLoading } from './src/cli/first-process.ts';
      // Those who measure coverage listen too.
      process.removeAllListeners('SIGTERM');
      endWhileLoading((status) => process.exit(status), 1);
      ${further}
      setInterval(() => {}, 1000);
      console.log('loaded');`;
    const outcome = async (further: string) => {
      const argv = ['--input-type=module', '-e', script(further)];
      const child = spawn(process.execPath, argv, { cwd: ROOT });
      await once(child.stdout, 'data');
      child.kill('SIGTERM');
      return once(child, 'close');
    };
    t.same(await outcome(''), [128 + 15, null], 'by a handler, not by the signal');
    const listener = `process.on('SIGTERM', () => setImmediate(() => process.exit(7)));`;
    t.same(await outcome(listener), [7, null], 'the listener decides');
  });

  await t.test('an uncaught exception is logged and exits with 70', async (t) => {
    const script = `
      import { watchProcess } from './src/cli/process-events.ts';
      import { createLogger } from './src/telemetry/logger.ts';
      const logger = createLogger({ level: 'info', repeated_lines: 100, encoding: 'json', write: console.log });
      const events = watchProcess(logger);
      setInterval(() => {}, 1000);
      Promise.reject(new Error('boom'));
      process.exit(await events.ended);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: ROOT });
    const stdout = collect(child, 'stdout');
    t.same(await once(child, 'close'), [70, null]);
    t.match(stdout.text(), /Uncaught exception/);
    t.match(stdout.text(), /boom/);
  });

  await t.test('a component that ends the process names the exit status', async (t) => {
    const events = watchProcess(quiet);
    t.teardown(() => events.close());
    events.fail(75);
    events.fail(70);
    t.equal(await events.ended, 75, 'the first one');
    t.ok(await isPending(events.cutShort), 'the process has time to stop');
  });

  await t.test('SIGHUP reloads the configuration', async (t) => {
    const events = watchProcess(quiet);
    t.teardown(() => events.close());
    let reloads = 0;
    events.onReload(() => {
      reloads += 1;
    });
    process.emit('SIGHUP', 'SIGHUP');
    t.equal(reloads, 1);
    t.ok(await isPending(events.ended));
  });
});
