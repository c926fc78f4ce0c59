import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import { ControlError } from '../../../src/control/protocol.ts';
import { startControlServer } from '../../../src/control/server.ts';
import { recordingLogger } from '../../helper/settings.ts';

t.setTimeout(90_000);

type Answer = (target: URL) => unknown;

const trace = (id: string) => ({
  ...{ id, name: id, state: 'finished', start_time: null, latency_ms: 5, user_id: null },
  ...{
    session_id: null,
    usage: null,
    cost: null,
    observation_count: 2,
    error_count: 0,
    models: [],
  },
});

/** Commands that ask a control socket, which answers as the test says. */
async function commands(t: Test, answer: Answer) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-traces-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  const quiet = { cwd, env: {}, out() {}, err() {} };
  await runCli(['init'], quiet);
  mkdirSync(join(cwd, 'data'));
  const asked: unknown[] = [];
  const server = await startControlServer(
    join(cwd, 'data'),
    async ({ arguments: { target, project } }) => {
      asked.push(project);
      return { project: 'proj_1', answer: await answer(new URL(String(target), 'http://local')) };
    },
    recordingLogger(),
  );
  t.teardown(() => server.close());
  async function run(argv: readonly string[], more: Partial<Terminal> = {}) {
    const out: string[] = [];
    const err: string[] = [];
    const terminal = { cwd, env: {}, out: (text: string) => out.push(text) };
    const status = await runCli(
      [...argv, `--set=extensions.sqlite.directory=${join(cwd, 'data')}`],
      {
        ...terminal,
        ...more,
        err: (text) => err.push(text),
      },
    );
    return { status, out, err };
  }
  return { run, asked };
}

/** Three pages of traces, the second of them empty. */
const PAGES: Record<string, unknown> = {
  '': { traces: [trace('a'), trace('b')], next_cursor: '1' },
  '1': { traces: [], next_cursor: '2', searched_to: '2026-11-20T21:30:00Z' },
  '2': { traces: [trace('c')], next_cursor: null },
};
const paged: Answer = ({ searchParams }) => PAGES[searchParams.get('cursor') ?? ''];

t.test('lists all pages up to the limit, as lines of JSON in a pipe', async (t) => {
  const targets: string[] = [];
  const { run, asked } = await commands(t, (target) => {
    targets.push(target.search);
    return paged(target);
  });
  const { status, out } = await run(['traces', 'a b', '--project', 'p', '--from', '2026-01-01']);
  t.equal(status, 0);
  t.same(
    out.map((line) => JSON.parse(line).id),
    ['a', 'b', 'c'],
  );
  t.match(targets[0], '?q=a+b&from=2026-01-01T00%3A00%3A00Z&limit=50');
  t.match(targets[2], 'limit=48');
  t.same(asked, ['p', 'proj_1', 'proj_1'], 'further pages name the project by its id');
});

t.test('a refused parameter is named as the option of the command', async (t) => {
  for (const [message, said] of [
    ['The query parameter group_by must be one of name, model.', '--group-by must be one of name'],
    ['The query parameter from must be an ISO 8601 date and time.', '--from must be an ISO'],
    ['Unknown field "modle" at character 1.', 'Unknown field "modle" at character 1.'],
  ] as const) {
    const { run } = await commands(t, () => {
      throw new ControlError('invalid_request', message);
    });
    const { status, err } = await run(['stats']);
    t.match({ status, err: err.join() }, { status: 64, err: `error: ${said}` });
  }
});

t.test('shows a table and the cursor of the next page on a terminal', async (t) => {
  const { run } = await commands(t, paged);
  const shown: string[] = [];
  const screen = { columns: () => 80, write: (text: string) => shown.push(text) };
  const { out, err } = await run(['traces', '--limit', '2'], { isOutShown: true, screen });
  t.match(out, [/^TIME +ID/]);
  t.equal(out[0]?.split('\n').length, 3);
  t.same(err, ['More traces: --cursor 1']);
  t.same(shown, [], 'a short search shows no progress');
  const whole = await run(['traces'], { isOutShown: true, screen });
  t.same(whole.err, []);
  t.match(shown[1], '2 traces found, searched back to 2026-11-20T21:30:00 …');
  t.equal(shown.at(-1), '\r\x1b[K', 'the progress is removed');
});

t.test('says that no trace matches', async (t) => {
  const { run } = await commands(t, () => ({ traces: [], next_cursor: null }));
  t.match(await run(['traces'], { isOutShown: true }), { out: [], err: ['No trace matches.'] });
  t.match(await run(['traces']), { out: [], err: [] });
});

t.test('Ctrl-C ends a search with what it has found', async (t) => {
  let interrupt = (): void => {};
  let removed = 0;
  const { run } = await commands(t, ({ searchParams }) => {
    if (searchParams.get('cursor') === null) return PAGES[''];
    interrupt();
    return new Promise((resolve) => setTimeout(resolve, 1000, PAGES[2]));
  });
  const onInterrupt: Terminal['onInterrupt'] = (listener) => {
    interrupt = () => listener('SIGINT');
    return () => removed++;
  };
  const { status, out, err } = await run(['traces'], { onInterrupt, isOutShown: true });
  t.equal(status, 130);
  t.equal(out[0]?.split('\n').length, 3);
  t.match(err, ['Interrupted: there may be more traces.', 'More traces: --cursor 1']);
  t.equal(removed, 1);
});

t.test('the limit is 1 to 100000', async (t) => {
  const { run } = await commands(t, paged);
  for (const limit of ['0', '100001', '1.5', 'x']) {
    t.match(await run(['traces', '--limit', limit]), { status: 64 }, limit);
  }
  for (const limit of ['1', '100000']) t.equal((await run(['traces', '--limit', limit])).status, 0);
});

const step = (id: string, parent_id: string | null) => ({
  ...{ id, parent_id, name: id, kind: null, status: 'success', start_time: null, end_time: null },
  ...{ usage: null, cost: null, error: null },
});
const shown: Answer = ({ pathname, searchParams }) => {
  if (pathname === '/traces') return { traces: [trace('a')], next_cursor: null };
  return searchParams.get('cursor') === null
    ? { trace: trace('a'), observations: [step('x', null)], next_cursor: '1' }
    : { trace: trace('a'), observations: [step('y', 'x')], next_cursor: null };
};

t.test('shows a trace of several pages as a tree, in colours where they are', async (t) => {
  const { run } = await commands(t, shown);
  const { out } = await run(['trace', 'a']);
  t.match(out[0], /x [\s\S]*└ y /);
  t.notMatch(out[0], '\x1b');
  const coloured: string[] = [];
  await run(['trace', 'a'], { columns: () => 80, outInColour: (text) => coloured.push(text) });
  t.match(coloured[0], '\x1b[1ma');
  const json = await run(['trace', 'a', '--json']);
  const whole = JSON.parse(json.out[0] ?? '');
  t.same([whole.observations.length, whole.next_cursor], [2, null]);
});

const group = (id: string) => ({
  ...{ id, first_time: '2026-11-20T21:30:00.000Z', last_time: null, traces: 3, errors: 1 },
  ...{ usage: { total_tokens: 12_000 }, cost: { total: 0.5 }, partial: id === 'b' },
});

t.test('lists sessions and users, as lines of JSON in a pipe and as a table', async (t) => {
  const targets: string[] = [];
  const { run } = await commands(t, ({ pathname, search, searchParams }) => {
    targets.push(pathname + search);
    const isFirst = searchParams.get('cursor') === null;
    const list = [isFirst ? group('a') : { ...group('b'), user_id: 'jane\u001b', sessions: 2 }];
    return { [pathname.slice(1)]: list, next_cursor: isFirst ? '1' : null };
  });
  const piped = await run(['sessions', 'has:error', '--from', '2026-01-01']);
  t.same(
    piped.out.map((line) => JSON.parse(line).id),
    ['a', 'b'],
  );
  t.match(targets, [
    '/sessions?q=has%3Aerror&from=2026-01-01T00%3A00%3A00Z&limit=50',
    '/sessions?q=has%3Aerror&from=2026-01-01T00%3A00%3A00Z&cursor=1&limit=49',
  ]);
  const shown = await run(['sessions'], { isOutShown: true });
  t.same(shown.out[0]?.split('\n'), [
    'SESSION  FIRST                LAST  TRACES  ERRORS  TOKENS      COST  USER',
    'a        2026-11-20 21:30:00  -          3       1   12.0k   $0.5000  -',
    'b        2026-11-20 21:30:00  -         3+      1+  12.0k+  $0.5000+  jane\ufffd',
  ]);
  const users = await run(['users', '--limit', '1'], { isOutShown: true });
  t.match(users.out[0], /^USER .*SESSIONS\na /);
  t.same(users.err, ['More users: --cursor 1']);
});

t.test('says that there are no sessions, and refuses a wrong limit', async (t) => {
  const { run } = await commands(t, () => ({ sessions: [], next_cursor: null }));
  t.match(await run(['sessions'], { isOutShown: true }), { out: [], err: ['No sessions found.'] });
  for (const limit of ['0', '100001']) {
    t.match(await run(['users', '--limit', limit]), { status: 64 }, limit);
  }
});

const STATS = {
  ...{ step: '1h', from: '2026-01-15T00:00:00Z', to: '2026-01-15T04:00:00Z', group_by: 'model' },
  groups: [
    {
      key: 'gpt',
      points: [
        ...[1, 8].map((traces, i) => ({
          ...{ time: `2026-01-15T0${i}:00:00Z`, traces, observations: 2, errors: 1 },
          ...{ input_tokens: 10, output_tokens: 5, cost: 0.5 },
          ...{ latency_p50_ms: 100, latency_p95_ms: 200 + i, latency_p99_ms: null },
        })),
      ],
    },
    { key: null, points: [{ time: '2026-01-15T03:00:00Z', traces: 2 }] },
  ],
  ...{ left_out: 3, partial: false, searched_to: null },
};

t.test('shows statistics as a table with bars, or as JSON in a pipe', async (t) => {
  const targets: string[] = [];
  const { run } = await commands(t, (target) => {
    targets.push(target.pathname + target.search);
    return STATS;
  });
  const screen = { columns: () => 120, write() {} };
  const options = ['--group-by', 'model', '--step', '1h', '--metric', 'cost', '--limit', '2'];
  const { status, out, err } = await run(['stats', 'a b', ...options], {
    ...{ isOutShown: true, screen, columns: () => 120 },
  });
  t.equal(status, 0);
  t.same(targets, ['/stats?q=a+b&step=1h&group_by=model&metric=cost&limit=2']);
  const [head = '', gpt = '', other = ''] = out[0]?.split('\n') ?? [];
  t.match(
    head,
    /^MODEL +TRACES +OBSERVATIONS +ERRORS +TOKENS +COST +MAX P50 +MAX P95 +MAX P99 +TRACES BY TIME$/,
  );
  t.match(gpt, /^gpt +9 +4 +2 +30 +\$1\.00 +100 ms +201 ms +0 ms +▁█$/);
  t.match(other, /^\(other\) +2 .* {3}█$/);
  t.same(err, ['3 more groups: --limit']);
  const narrow = await run(['stats'], { isOutShown: true, columns: () => 60 });
  t.notMatch(narrow.out[0], '█', 'bars need room');
  t.same((await run(['stats'])).out, [JSON.stringify(STATS)]);
  t.same((await run(['stats', '--json'], { isOutShown: true })).out, [JSON.stringify(STATS)]);
});

t.test('statistics of no trace, and partial ones, say so', async (t) => {
  let answer: object = { ...STATS, groups: [], left_out: 0 };
  const { run } = await commands(t, () => answer);
  t.match(await run(['stats'], { isOutShown: true }), { out: [], err: ['No trace matches.'] });
  answer = { ...STATS, left_out: 0, partial: true, searched_to: '2026-01-15T02:00:00Z' };
  const { err } = await run(['stats'], { isOutShown: true });
  t.match(err, [/the traces since 2026-01-15T02:00:00Z/]);
});

t.test('Ctrl-C ends statistics', async (t) => {
  let interrupt = (): void => {};
  const { run } = await commands(t, () => {
    interrupt();
    return new Promise((resolve) => setTimeout(resolve, 1000, STATS));
  });
  const onInterrupt: Terminal['onInterrupt'] = (listener) => {
    interrupt = () => listener('SIGINT');
    return () => undefined;
  };
  t.match(await run(['stats'], { onInterrupt }), { status: 130, out: [], err: ['Interrupted.'] });
});

for (const argv of [['trace', 't-1'], ['traces'], ['sessions'], ['users']]) {
  t.test(`Ctrl-C ends ${argv[0]} with a status that a script sees`, async (t) => {
    let interrupt = (): void => {};
    const { run } = await commands(t, () => {
      interrupt();
      return new Promise(() => {});
    });
    const onInterrupt: Terminal['onInterrupt'] = (listener) => {
      interrupt = () => listener('SIGINT');
      return () => undefined;
    };
    const { status, out, err } = await run(argv, { onInterrupt });
    t.match({ status, out }, { status: 130, out: [] });
    t.match(err.join(), /^Interrupted/);
  });
}
