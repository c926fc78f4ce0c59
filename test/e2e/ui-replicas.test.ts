import t from 'tap';
import { type Answer, send } from './client.ts';
import { startCluster } from './cluster.ts';
import type { Daemon } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** Sessions of the web UI over replicas of gateways, which have several workers each. */

t.setTimeout(240_000);

t.test('replicas share sessions and codes, and each shows all its workers', async (t) => {
  const { gateways, adminToken } = await startCluster(t, {
    gateways: 2,
    workers: 0,
    gateway(config) {
      treeAt(config, 'service').workers = 2;
    },
  });
  const [a, b] = gateways;
  if (a === undefined || b === undefined) throw new Error('there are two gateways');
  const ask = (daemon: Daemon, method: string, path: string, headers = {}, body?: object) =>
    send(daemon.adminBase, {
      ...{ method, path: `/api/v1${path}` },
      headers: {
        ...headers,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  const bearer = { authorization: `Bearer ${adminToken}` };
  const cookieOf = ({ headers }: Answer) =>
    ([headers['set-cookie'] ?? ''].flat()[0] ?? '').split(';', 1)[0] ?? '';

  const made = await ask(a, 'POST', '/sessions/codes', bearer);
  const { code } = JSON.parse(made.body.toString()) as { code: string };
  const races = await Promise.all(
    [a, b, a, b, a, b].map((daemon) => ask(daemon, 'POST', '/session', {}, { code })),
  );
  const [won, ...others] = races.filter(({ status }) => status === 204);
  t.strictSame(others, [], 'of two replicas one takes the code');
  if (won === undefined) throw new Error('no replica took the code');
  const cookie = cookieOf(won);
  for (const daemon of [a, b]) {
    t.equal((await ask(daemon, 'GET', '/projects', { cookie })).status, 200);
    const shown = await ask(daemon, 'GET', '/pipelines', { cookie });
    const { processes, nodes } = JSON.parse(shown.body.toString()) as {
      processes: number;
      nodes: { id: string; queue: { entries: number } | null }[];
    };
    t.equal(processes, 2, 'the workers of this gateway');
    t.ok(nodes.some(({ id }) => id.startsWith('receiver:')));
    const letters = await ask(daemon, 'GET', '/dead-letters', { cookie });
    t.match(JSON.parse(letters.body.toString()), { dead_letters: [] });
    const service = await ask(daemon, 'GET', '/service', { cookie });
    t.match(service.body.toString(), daemon.base.replace(/^.*:/, ':'), 'the port of the receivers');
  }
  const page = { cookie, origin: b.adminBase, 'x-tracectl-ui': '1' };
  t.equal((await ask(b, 'DELETE', '/session', page)).status, 204);
  t.equal((await ask(a, 'GET', '/projects', { cookie })).status, 401, 'signed out on both');

  const { code: status, stdout, stderr } = await b.cli('ui');
  t.equal(status, 0, stderr);
  t.ok(stdout.startsWith(`${b.adminBase}/#code=`), 'the supervisor asks the first worker');
});
