import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';

t.setTimeout(120_000);

t.test('search status says how far the index is; JSON in a pipe', async (t) => {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-search-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  await runCli(['init'], { cwd, env: {}, out() {}, err() {} });
  const run = async (isOutShown: boolean, ...more: string[]) => {
    const out: string[] = [];
    const directory = `--set=extensions.sqlite.directory=${join(cwd, 'data')}`;
    const terminal = { cwd, env: {}, isOutShown, out: (text: string) => out.push(text), err() {} };
    t.equal(await runCli(['search', 'status', directory, ...more], terminal), 0);
    return out.join('\n');
  };
  const on = '--set=extensions.sqlite.search.payloads=4KiB';
  t.equal(await run(true), 'Payloads are not searched.');
  t.equal(await run(true, on), 'Text search covers the first 4096 bytes of inputs and outputs.');
  t.match(JSON.parse(await run(false, on)), {
    ...{ state: 'ready', payload_bytes: 4096, progress: 1 },
    ...{ indexed: 0, stored: 0, waiting: 0 },
  });
  t.match(JSON.parse(await run(true, on, '--json')), { state: 'ready' });
});
