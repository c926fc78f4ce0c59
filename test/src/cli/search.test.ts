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
  const call = async (isOutShown: boolean, ...more: string[]) => {
    const [out, err]: [string[], string[]] = [[], []];
    const directory = `--set=extensions.sqlite.directory=${join(cwd, 'data')}`;
    const shown = { out: (text: string) => out.push(text), err: (text: string) => err.push(text) };
    const terminal = { cwd, env: {}, isOutShown, ...shown };
    const status = await runCli(['search', 'status', directory, ...more], terminal);
    return { status, out: out.join('\n'), err: err.join('\n') };
  };
  const run = async (isOutShown: boolean, ...more: string[]) => {
    const { status, out } = await call(isOutShown, ...more);
    t.equal(status, 0);
    return out;
  };
  const on = '--set=extensions.sqlite.search.payloads=4KiB';
  t.equal(await run(true), 'Payloads are not searched.');
  t.equal(await run(true, on), 'Text search covers the first 4096 bytes of inputs and outputs.');
  t.match(JSON.parse(await run(false, on)), {
    ...{ state: 'ready', payload_bytes: 4096, progress: 1 },
    ...{ indexed: 0, stored: 0, waiting: 0 },
  });
  t.match(JSON.parse(await run(true, on, '--json')), { state: 'ready' });
  t.match(JSON.parse(await run(false, on, '--project', 'default')), { state: 'ready' });
  const help = await run(true, '--help');
  for (const name of Object.keys(JSON.parse(await run(false, on)))) {
    t.match(help, new RegExp(`^  ${name} +\\S`, 'm'), `the help explains ${name}`);
  }
  const unknown = await call(false, on, '--project', 'none');
  t.not(unknown.status, 0);
  t.match(unknown.err, /no project, or more than one, matches "none"/);
});
