import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { callDaemon, NoDaemonError } from '../../../src/control/client.ts';
import { createControlHandler } from '../../../src/control/commands.ts';
import { ControlError } from '../../../src/control/protocol.ts';
import { type ControlHandler, startControlServer } from '../../../src/control/server.ts';
import { directoryInPlace, makeDirectoryInPlace } from '../../../src/control/socket-path.ts';
import { StoreError } from '../../../src/model/errors.ts';
import type { DeadLetter, QueueAdmin } from '../../../src/queue/queue.ts';
import { createQueues } from '../../../src/queue/registry.ts';
import type { Store } from '../../../src/store/store.ts';
import type { ApiKey } from '../../../src/tenancy/contract.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

type Test = { teardown(clean: () => unknown): unknown };

function dataDirectory(t: Test, ...below: string[]): string {
  const root = mkdtempSync(join(tmpdir(), 'tracectl-control-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const directory = join(root, ...below);
  mkdirSync(directory, { recursive: true });
  return directory;
}

async function serving(t: Test, handler: ControlHandler, directory = dataDirectory(t)) {
  const logger = recordingLogger();
  const server = await startControlServer(directory, handler, logger);
  t.teardown(() => server.close());
  return { directory, server, logger };
}

const echo: ControlHandler = async ({ command, arguments: args }) => ({ command, args });

t.test('a command reaches the daemon, and the client gets its result', async (t) => {
  const { directory } = await serving(t, echo);
  const results = await Promise.all(
    [1, 2, 3].map((n) => callDaemon(directory, 'say', { n, text: 'a\nb ü' })),
  );
  t.same(
    results,
    [1, 2, 3].map((n) => ({ command: 'say', args: { n, text: 'a\nb ü' } })),
  );
});

t.test('runs 16 commands at once, lets 240 wait, and answers further ones', async (t) => {
  const run: unknown[] = [];
  let most = 0;
  let running = 0;
  const open = Promise.withResolvers<void>();
  const { directory } = await serving(t, async ({ arguments: args }) => {
    running++;
    most = Math.max(most, running);
    await open.promise;
    running--;
    run.push(args['n']);
  });
  const numbers = Array.from({ length: 256 }, (_, n) => n);
  const calls = numbers.map((n) => callDaemon(directory, 'wait', { n }));
  const one = callDaemon(directory, 'wait', { n: 256 });
  await t.rejects(one, { code: 'busy', message: '256 commands are in progress. Retry' });
  open.resolve();
  await Promise.all(calls);
  t.equal(most, 16);
  t.same(
    run.sort((a, b) => Number(a) - Number(b)),
    numbers,
  );
});

t.test('the waiting command of a client that has gone never runs', async (t) => {
  const run: unknown[] = [];
  const open = Promise.withResolvers<void>();
  const { directory, server } = await serving(t, async ({ command }) => {
    run.push(command);
    await open.promise;
  });
  const calls = Array.from({ length: 16 }, () => callDaemon(directory, 'first'));
  await until(() => run.length === 16);
  const gone = connect(server.path);
  await once(gone, 'connect');
  gone.write('{"command":"gone"}\n', () => gone.destroy());
  await once(gone, 'close');
  // The server answers the end of the client's side, also to a client that still reads.
  const halfOpen = connect({ path: server.path, allowHalfOpen: true });
  halfOpen.end('{"command":"half-open"}\n');
  const [answer] = await once(halfOpen, 'data');
  t.match(JSON.parse(String(answer)), { error: { code: 'client_gone' } });
  const last = callDaemon(directory, 'last');
  open.resolve();
  await Promise.all([...calls, last]);
  t.same(new Set(run), new Set(['first', 'last']));
  t.equal(run.length, 17);
});

t.test('a refused client that keeps its connection does not hold up the end', async (t) => {
  const { server } = await serving(t, () => new Promise(() => {}));
  const connected = async () => {
    const socket = connect({ path: server.path, allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  };
  for (let n = 0; n < 256; n++) await connected();
  const refused = await connected();
  await once(refused, 'data');
  let isClosed = false;
  void server.close().then(() => {
    isClosed = true;
  });
  await until(() => isClosed);
});

t.test('only the user who runs the daemon can open its socket', async (t) => {
  const { server } = await serving(t, echo);
  t.equal(statSync(server.path).mode & 0o777, 0o600);
});

t.test('a refused command keeps its code, and an internal error is logged', async (t) => {
  const { directory, logger } = await serving(t, async ({ command }) => {
    if (command === 'refuse') throw new ControlError('no_such', 'There is none.');
    if (command === 'store') throw new StoreError('unknown_key', 'no such key');
    throw new TypeError('broken');
  });
  await t.rejects(callDaemon(directory, 'refuse'), { code: 'no_such', message: 'There is none.' });
  await t.rejects(callDaemon(directory, 'store'), { code: 'unknown_key' });
  t.equal(logger.lines.length, 0);
  await t.rejects(callDaemon(directory, 'fault'), { code: 'internal' });
  t.match(logger.lines, [{ level: 'error', message: 'Control command failed' }]);
});

t.test('the client rejects with NoDaemonError when no daemon runs', async (t) => {
  const directory = dataDirectory(t);
  await t.rejects(callDaemon(directory, 'x'), NoDaemonError);
  await t.rejects(callDaemon(join(directory, 'none'), 'x'), NoDaemonError);
  const { server } = await serving(t, echo, directory);
  await server.close();
  await t.rejects(callDaemon(directory, 'x'), NoDaemonError);
  t.notOk(existsSync(server.path), 'the socket is gone');
});

t.test('replaces the socket of a killed daemon, but not of a running one', async (t) => {
  const directory = dataDirectory(t);
  const child = await listenAndBeKilled(join(directory, 'control.sock'));
  t.equal(child.signalCode, 'SIGKILL');
  t.ok(existsSync(join(directory, 'control.sock')), 'the killed daemon left its socket');
  await serving(t, echo, directory);
  t.same(await callDaemon(directory, 'x'), { command: 'x', args: {} });
  await t.rejects(startControlServer(directory, echo, recordingLogger()), /another daemon answers/);
  t.same(await callDaemon(directory, 'x'), { command: 'x', args: {} });
});

async function listenAndBeKilled(path: string): Promise<ChildProcess> {
  const script = `require('net').createServer().listen(process.argv[1], () => console.log('up'))`;
  const child = spawn(process.execPath, ['-e', script, path], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  return child;
}

t.test('serves a data directory whose path is too long for a socket', async (t) => {
  const long = dataDirectory(t, 'd'.repeat(120));
  const { server, directory } = await serving(t, echo, long);
  t.ok(Buffer.byteLength(server.path) <= 103);
  t.equal(statSync(server.path).mode & 0o777, 0o600);
  t.same(await callDaemon(directory, 'x'), { command: 'x', args: {} });
  await server.close();
  await t.rejects(callDaemon(directory, 'x'), NoDaemonError);
});

t.test('finds a daemon without a data directory by its name, for the same user only', async (t) => {
  const name = `a configuration of ${process.pid}`;
  await t.rejects(callDaemon(directoryInPlace(name), 'x'), NoDaemonError);
  const directory = makeDirectoryInPlace(name);
  t.teardown(() => rmSync(directory, { recursive: true }));
  t.equal(directory, directoryInPlace(name));
  t.not(directory, directoryInPlace(`${name}0`));
  t.equal(statSync(directory).mode & 0o777, 0o700);
  t.equal(statSync(join(directory, '..')).mode & 0o777, 0o700);
  const server = await startControlServer(directory, echo, recordingLogger());
  t.same(await callDaemon(directory, 'x'), { command: 'x', args: {} });
  await server.close();
});

t.test('refuses a socket directory that other users can enter', async (t) => {
  const shared = dataDirectory(t, `tracectl-${process.getuid?.() ?? 0}`);
  chmodSync(shared, 0o755);
  const before = process.env.TMPDIR;
  t.teardown(() => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  });
  const long = dataDirectory(t, 'd'.repeat(120));
  process.env.TMPDIR = join(shared, '..');
  await t.rejects(startControlServer(long, echo, recordingLogger()), /not a private directory/);
});

t.test('answers invalid requests and keeps serving', async (t) => {
  const { directory, server } = await serving(t, echo);
  const cases: [string, RegExp][] = [
    ['no json\n', /"invalid_request".*not JSON/],
    ['null\n', /"invalid_request".*names no command/],
    ['{"command":5}\n', /"invalid_request".*names no command/],
    [`{"command":"${'x'.repeat(70_000)}"}\n`, /"invalid_request".*too large/],
    ['y'.repeat(70_000), /"invalid_request".*too large/],
    ['{"command":"x"}', /^$/],
  ];
  for (const [sent, expected] of cases)
    t.match(await raw(server.path, sent), expected, sent.slice(0, 20));
  t.same(await callDaemon(directory, 'x'), { command: 'x', args: {} });
});

async function raw(path: string, text: string): Promise<string> {
  const socket = connect(path);
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    received += chunk;
  });
  socket.on('error', () => {});
  socket.end(text);
  await once(socket, 'close');
  return received;
}

t.test('closing the server ends a waiting client', async (t) => {
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const { directory, server } = await serving(t, () => {
    asked();
    return new Promise(() => {});
  });
  const answer = callDaemon(directory, 'x');
  answer.catch(() => {});
  await isAsked;
  await server.close();
  await t.rejects(answer, { code: 'no_answer' });
});

t.test('lists, creates and revokes keys of a store', async (t) => {
  const store = fakeStore(['proj_1']);
  const handle = handlerFor({ store });
  const made = await handle({ command: 'keys.create', arguments: { store: 's', name: 'ci' } });
  t.match(made, {
    id: 'key_0',
    project_id: 'proj_1',
    name: 'ci',
    token: 'token_0',
    revoked_at: null,
  });
  const listed = await handle({ command: 'keys.list', arguments: { store: 's' } });
  t.match(listed, { keys: [{ id: 'key_0', created_at: '1970-01-01T00:00:01.000Z' }] });
  t.notMatch(JSON.stringify(listed), /token/);
  const revoked = await handle({ command: 'keys.revoke', arguments: { store: 's', id: 'key_0' } });
  t.match(revoked, { id: 'key_0', revoked_at: '1970-01-01T00:00:02.000Z' });
});

t.test('never creates a key for an ambiguous or unknown project', async (t) => {
  const create = (projects: string[], args: object) =>
    handlerFor({ store: fakeStore(projects) })({
      command: 'keys.create',
      arguments: { store: 's', ...args },
    });
  await t.rejects(create([], {}), { code: 'no_project' });
  await t.rejects(create(['a', 'b'], {}), { code: 'unknown_project', message: /--project: a .*b/ });
  await t.rejects(create(['a', 'b'], { project: 'c' }), { code: 'unknown_project' });
  t.match(await create(['a', 'b'], { project: 'name of b' }), { project_id: 'b' });
  await t.rejects(create(['a'], { permissions: ['admin'] }), { code: 'invalid_request' });
  await t.rejects(create(['a'], { nonsense: 1 }), { code: 'invalid_request' });
});

t.test('refuses unknown commands and stores', async (t) => {
  const handle = handlerFor({ store: fakeStore([]) });
  for (const command of ['x', 'toString', 'keys', '__proto__']) {
    const asked = handle({ command, arguments: {} });
    await t.rejects(asked, { code: 'unknown_command', message: /older version, restart/ }, command);
  }
  await t.rejects(handle({ command: 'keys.list', arguments: {} }), { code: 'unknown_store' });
  await t.rejects(handle({ command: 'keys.list', arguments: { store: 'x' } }), {
    code: 'unknown_store',
  });
  t.same(await handle({ command: 'reload', arguments: {} }), { reloaded: true });
});

t.test('lists, shows, replays and drops the dead letters of a queue', async (t) => {
  const one = fakeQueue([1, 2, 3]);
  const two = fakeQueue([1]);
  const alone = handlerFor({ queues: [['q1', one]] });
  t.match(await alone({ command: 'dead_letters.list', arguments: { limit: 2 } }), {
    dead_letters: [{ queue: 'q1', id: 1, exporter: 'sqlite', code: 'broken' }, { id: 2 }],
  });
  t.match(await alone({ command: 'dead_letters.show', arguments: { id: 2 } }), { id: 2 });
  await t.rejects(alone({ command: 'dead_letters.show', arguments: { id: 9 } }), {
    code: 'unknown_dead_letter',
  });
  t.same(await alone({ command: 'dead_letters.replay', arguments: { ids: [1, 2] } }), {
    replayed: 2,
  });
  t.same(await alone({ command: 'dead_letters.drop', arguments: { ids: 'all' } }), { dropped: 1 });
  const both = handlerFor({
    queues: [
      ['q1', one],
      ['q2', two],
    ],
  });
  await t.rejects(both({ command: 'dead_letters.drop', arguments: { ids: 'all' } }), {
    code: 'unknown_queue',
  });
  t.same(await both({ command: 'dead_letters.drop', arguments: { queue: 'q2', ids: [1] } }), {
    dropped: 1,
  });
  await t.rejects(handlerFor({})({ command: 'dead_letters.drop', arguments: { ids: 'all' } }), {
    code: 'no_queue',
  });
  await t.rejects(alone({ command: 'dead_letters.drop', arguments: { ids: [] } }), {
    code: 'invalid_request',
  });
});

t.test(
  'lists the dead letters of several queues oldest first, and pages those of one',
  async (t) => {
    const handle = handlerFor({
      queues: [
        ['q1', fakeQueue([7, 8, 9], () => 2000)],
        ['q2', fakeQueue([1], () => 1000)],
      ],
    });
    const list = (args: object) =>
      handle({ command: 'dead_letters.list', arguments: { limit: 2, ...args } });
    const first = { queue: 'q2', id: 1 };
    t.match(await list({}), { dead_letters: [first, { queue: 'q1', id: 7 }] });
    await t.rejects(list({ after: 7 }), { code: 'unknown_queue' });
    const rest = [8, 9].map((id) => ({ queue: 'q1', id }));
    t.match(await list({ queue: 'q1', after: 7 }), { dead_letters: rest });
  },
);

t.test('lists the dead letters of one queue by id, also those that failed again', async (t) => {
  // As in Redis, where a letter that failed again gets a new id and keeps its time.
  const queue = fakeQueue([7, 8, 9], (id) => 1000 - id);
  const handle = handlerFor({ queues: [['q', queue]] });
  const list = async (args: object) => {
    const found = await handle({ command: 'dead_letters.list', arguments: { limit: 2, ...args } });
    return (found as { dead_letters: { id: number }[] }).dead_letters.map(({ id }) => id);
  };
  t.same(await list({}), [7, 8]);
  t.same(await list({ after: 8 }), [9]);
});

t.test('a removed queue is not found', async (t) => {
  const queues = createQueues();
  const [first, second] = [fakeQueue([]), fakeQueue([])];
  const forget = queues.register('q', first);
  queues.register('q', second);
  forget();
  t.equal(queues.all.get('q'), second, 'the successor stays');
});

function handlerFor({ store, queues = [] }: { store?: Store; queues?: [string, QueueAdmin][] }) {
  return createControlHandler({
    stores: () => new Map(store === undefined ? [] : [['s', store]]),
    queues: () => new Map(queues),
    reads: { routes: [] },
    reload: async () => ({ reloaded: true }),
    adminApis: () => [],
    service: () => ({ version: '1', endpoints: [] }),
    pipelines: () => ({ flow: { since: 0, nodes: [], edges: [] }, queues: {}, health: [] }),
  });
}

function fakeStore(projects: readonly string[]): Store {
  const keys: ApiKey[] = [];
  const partial = {
    projects: {
      list: async () =>
        projects.map((id) => ({ id, organizationId: 'o', name: `name of ${id}`, createdAt: 0 })),
    },
    keys: {
      list: async () => keys,
      async create({ projectId, name = 'key' }: { projectId: string; name?: string }) {
        const key: ApiKey = {
          id: `key_${keys.length}`,
          projectId,
          organizationId: 'o',
          name,
          prefix: 'ws_x',
          permissions: ['ingest:write'],
          createdAt: 1000,
          lastUsedAt: null,
          revokedAt: null,
        };
        keys.push(key);
        return { key, token: `token_${keys.length - 1}` };
      },
      revoke: async (id: string) => ({ ...keys.find((key) => key.id === id), revokedAt: 2000 }),
    },
  };
  return partial as unknown as Store;
}

function fakeQueue(ids: readonly number[], failedAt = (_id: number) => 0): QueueAdmin {
  let left = ids.map(
    (id): DeadLetter => ({
      id,
      branch: 'sqlite',
      batchId: 'b',
      projectId: 'p',
      items: 1,
      bytes: 10,
      reason: { code: 'broken', message: 'It is broken.' },
      failedAt: failedAt(id),
    }),
  );
  const take = async (wanted: readonly number[] | 'all') => {
    const before = left.length;
    left = left.filter(({ id }) => wanted !== 'all' && !wanted.includes(id));
    return before - left.length;
  };
  const partial = {
    deadLetters: async ({ limit = 100, after = 0 }: { limit?: number; after?: number }) =>
      left.filter(({ id }) => id > after).slice(0, limit),
    replay: take,
    drop: take,
  };
  return partial as unknown as QueueAdmin;
}
