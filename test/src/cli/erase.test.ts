import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import { startControlServer } from '../../../src/control/server.ts';
import { recordingLogger } from '../../helper/settings.ts';

t.setTimeout(90_000);

const erasure = (more: object) => ({
  ...{ id: 'era_1', project_id: 'proj_1', q: 'user:u', state: 'running', dry_run: false },
  ...{ traces: 0, observations: 0, bytes: 0, failure: null, receipt: null },
  ...more,
});

const receipt = { ids_hash: 'abc', verified_at: '2026-11-20T21:30:00.000Z', copies: ['backups'] };
const done = erasure({ state: 'done', traces: 2, observations: 30, bytes: 4000, receipt });
const counted = erasure({ state: 'counted', dry_run: true, traces: 2, observations: 30 });

/** Commands that ask a control socket; `waits` are the answers about the state of an erasure, in their order. */
async function commands(t: Test, waits: readonly object[]) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-erase-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  await runCli(['init'], { cwd, env: {}, out() {}, err() {} });
  mkdirSync(join(cwd, 'data'));
  const asked: [string, Record<string, unknown>][] = [];
  const left = [...waits];
  const server = await startControlServer(
    join(cwd, 'data'),
    async ({ command, arguments: { store: _, ...args } }) => {
      asked.push([command, args]);
      return command === 'erasures.wait' ? (left.shift() ?? erasure({})) : erasure({});
    },
    recordingLogger(),
  );
  t.teardown(() => server.close());
  async function run(argv: readonly string[], more: Partial<Terminal> = {}) {
    const out: string[] = [];
    const err: string[] = [];
    const status = await runCli(
      [...argv, `--set=extensions.sqlite.directory=${join(cwd, 'data')}`],
      { cwd, env: {}, ...more, out: (text) => out.push(text), err: (text) => err.push(text) },
    );
    return { status, out: out.join('\n'), err: err.join('\n') };
  }
  return { run, asked };
}

t.test('erase shows its progress, and then the receipt', async (t) => {
  const waiting = erasure({ traces: 1, failure: 'a worker is slow' });
  const { run, asked } = await commands(t, [erasure({ traces: 1 }), waiting, done]);
  const { status, out, err } = await run(['erase', 'user:u', '--yes', '--project', 'web']);
  t.equal(status, 0);
  const soFar = '1 traces, 0 observations, 0 bytes erased so far';
  t.match(err, `${soFar}\n${soFar}; waiting: a worker is slow`);
  t.match(out, 'Erased 2 traces, 30 observations, 4,000 bytes.');
  t.match(out, 'Receipt era_1: ids abc');
  t.match(out, 'A copy may still be in: backups.');
  t.match(asked, [
    ['erasures.create', { project: 'web', q: 'user:u', dry_run: false }],
    ['erasures.wait', { project: 'proj_1', id: 'era_1' }],
    ['erasures.wait', {}],
    ['erasures.wait', {}],
  ]);
});

t.test('erase asks after a dry run, and erases only for a yes', async (t) => {
  for (const [answer, requests] of [
    ['yes', 2],
    ['y', 1],
  ] as const) {
    const { run, asked } = await commands(t, [counted, done]);
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return answer;
    };
    const { status } = await run(['erase', 'user:u'], { ask });
    t.equal(status, requests === 2 ? 0 : 1);
    t.match(questions, ['Erase 2 traces, 30 observations, 0 bytes for good?']);
    const created = asked.filter(([command]) => command === 'erasures.create');
    t.same(
      created.map(([, args]) => args.dry_run),
      [true, false].slice(0, requests),
    );
  }
});

t.test('erase asks nothing if the query finds nothing, unless it blocks values', async (t) => {
  const none = erasure({ state: 'counted', dry_run: true });
  const more = ['--block-until', '2026-12-31T00:00:00Z'];
  for (const [found, options, questions] of [
    [none, [], 0],
    [none, more, 1],
    [erasure({ ...none, bytes: 7 }), [], 1],
  ] as const) {
    const { run, asked } = await commands(t, [found]);
    let answered = 0;
    const ask = async () => `no ${++answered}`;
    const { status, err } = await run(['erase', 'user:u', ...options], { ask });
    t.equal(answered, questions);
    t.equal(status, questions);
    t.match(err, 'Nothing was erased.');
    t.equal(asked.filter(([command]) => command === 'erasures.create').length, 1);
  }
});

t.test('erase says that a dry run failed, and not that it finds nothing', async (t) => {
  const failure = 'the project was deleted';
  const { run } = await commands(t, [erasure({ state: 'failed', dry_run: true, failure })]);
  let answered = 0;
  const ask = async () => `no ${++answered}`;
  const { status, err } = await run(['erase', 'user:u'], { ask });
  t.equal(answered, 0);
  t.equal(status, 1);
  t.equal(err, `The erasure era_1 failed: ${failure}.`);
});

t.test('erase without a person needs --yes', async (t) => {
  const { run, asked } = await commands(t, []);
  const { status, err } = await run(['erase', 'user:u']);
  t.equal(status, 64);
  t.match(err, '--yes');
  t.same(asked, []);
});

t.test('a dry run counts, and takes a block of values along', async (t) => {
  const { run, asked } = await commands(t, [counted]);
  const until = '2026-12-31T00:00:00Z';
  const { status, out } = await run(['erase', 'user:u', '--dry-run', '--block-until', until]);
  t.equal(status, 0);
  t.match(out, 'The query finds 2 traces, 30 observations, 0 bytes. Nothing was erased.');
  t.match(asked[0]?.[1], { dry_run: true, block_until: until });
});

t.test('Ctrl-C ends the wait, and the erasure goes on', async (t) => {
  const { run } = await commands(t, []);
  const { status, err } = await run(['erase', 'user:u', '--yes'], {
    onInterrupt(listener) {
      setTimeout(() => listener('SIGINT'), 50);
      return () => {};
    },
  });
  t.equal(status, 130);
  t.match(err, 'The erasure era_1 goes on in the daemon');
});

t.test('--no-wait ends as soon as the erasure is requested', async (t) => {
  const { run, asked } = await commands(t, []);
  const { status, out } = await run(['erase', 'user:u', '--yes', '--no-wait']);
  t.equal(status, 0);
  t.equal(out, 'Requested the erasure era_1.');
  t.equal(asked.length, 1);
});
