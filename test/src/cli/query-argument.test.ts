import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import { ControlError } from '../../../src/control/protocol.ts';
import { startControlServer } from '../../../src/control/server.ts';
import { recordingLogger } from '../../helper/settings.ts';

t.setTimeout(90_000);

/** Commands that ask a control socket, which refuses every request: `run` resolves with the query of the first one. */
async function queries(t: Test) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-query-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  await runCli(['init'], { cwd, env: {}, out() {}, err() {} });
  mkdirSync(join(cwd, 'data'));
  let asked: unknown[] = [];
  const server = await startControlServer(
    join(cwd, 'data'),
    async ({ arguments: { project, q, target, query } }) => {
      const search = new URLSearchParams(String(query ?? target).replace(/^.*\?/, ''));
      asked = [q ?? search.get('q'), project];
      throw new ControlError('invalid_query', 'refused');
    },
    recordingLogger(),
  );
  t.teardown(() => server.close());
  async function run(...argv: readonly string[]) {
    asked = [];
    const err: string[] = [];
    const terminal = { cwd, env: {}, out() {}, err: (text: string) => err.push(text) };
    const status = await runCli(argv, terminal);
    return { asked, status, err: err.join('\n') };
  }
  return { run, cwd, data: `--set=extensions.sqlite.directory=${join(cwd, 'data')}` };
}

const COMMANDS: readonly (readonly string[])[] = [
  ['traces'],
  ['stats'],
  ['sessions'],
  ['users'],
  ['export', '--output', 'out.jsonl'],
  ['erase', '--yes'],
];

for (const command of COMMANDS) {
  t.test(`${command[0]} takes a query that begins with a term that excludes`, async (t) => {
    const { run, data } = await queries(t);
    for (const query of ['-status:ok', '-custom.size:L', '-cost:>1 user:"a b"', '-"a phrase"']) {
      for (const argv of [
        [...command, query, data, '--project', 'web'],
        [...command, '-c', 'tracectl.yaml', data, '--project', 'web', query],
        [...command, '-ctracectl.yaml', query, data, '--project=web'],
        [...command, '--project', 'web', data, '--', query],
      ]) {
        t.same((await run(...argv)).asked, [query, 'web'], argv.join(' '));
      }
    }
  });
}

t.test('options and their values stay in their place', async (t) => {
  const { run, data, cwd } = await queries(t);
  const valued = await run('traces', data, '--project', '-user:x', '-custom."a b":y');
  t.same(valued.asked, ['-custom."a b":y', '-user:x'], 'the value of an option');
  t.same((await run('traces', data, '--', '-word')).asked, ['-word', undefined]);
  t.same((await run('traces', data)).asked, [null, undefined]);
  const unknown = await run('traces', data, '-word');
  t.match(unknown, { status: 64, err: "error: unknown option '-word'" });
  t.match(unknown.err, "goes behind --: tracectl traces -- '-word')");
  t.notMatch((await run('traces', data, '--word')).err, 'goes behind --');
  const { status, err } = await run('traces', data, '-cnone.yaml');
  t.equal(status, 78);
  t.match(err, 'none.yaml: error: cannot be read: there is no such file');
  for (const file of ['an:other', 'an.other:yaml', 'file:an:other']) {
    const name = file.replace('file:', '');
    copyFileSync(join(cwd, 'tracectl.yaml'), join(cwd, name));
    t.same((await run('traces', data, `-c${file}`)).asked, [null, undefined], file);
    rmSync(join(cwd, name));
  }
});

t.test('a misspelled field is a mistake of the query', async (t) => {
  const { run, data } = await queries(t);
  for (const query of ['-modle:x', '-costs:x', '-costs.size:x', '-channel:x user:u']) {
    t.same((await run('traces', data, query)).asked, [query, undefined]);
  }
});

t.test('commands without a query keep their arguments', async (t) => {
  const { run, data } = await queries(t);
  const { status, err } = await run('trace', data, '-status:ok');
  t.match({ status, err }, { status: 64, err: "error: unknown option '-status:ok'" });
  t.notMatch(err, 'goes behind --');
});
