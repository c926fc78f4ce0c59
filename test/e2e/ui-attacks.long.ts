import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { daemonEntry } from '../helper/daemon-bundle.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { dial } from '../helper/wire.ts';
import { type Answer, send } from './client.ts';
import { type Daemon, prepareDaemon, startDaemon } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** Attacks on the sessions of the web UI, against the real daemon. */

t.setTimeout(300_000);

const fixture = (name: string) => join(import.meta.dirname, '../fixtures/tls', name);
const SESSION = '/api/v1/session';
const PROJECTS = '/api/v1/projects';
const JSON_TYPE = { 'content-type': 'application/json' };

type Headers = Readonly<Record<string, string>>;

/** Requests as a page of the UI at this origin sends them. */
function ownPage(daemon: Pick<Daemon, 'adminBase'>, cookie: string): Headers {
  const same = { 'x-tracectl-ui': '1', 'sec-fetch-site': 'same-origin' };
  return { cookie, origin: daemon.adminBase, ...same };
}

function adminTokenOf({ directory }: Daemon): string {
  return readFileSync(join(directory, 'data', 'admin-token'), 'utf8').trim();
}

function signIn(daemon: Daemon, credential: object, headers: Headers = {}): Promise<Answer> {
  return send(daemon.adminBase, {
    method: 'POST',
    path: SESSION,
    headers: { ...JSON_TYPE, ...headers },
    body: JSON.stringify(credential),
  });
}

function setCookies({ headers }: Answer): string[] {
  const set = headers['set-cookie'];
  return set === undefined ? [] : [set].flat();
}

function cookieOf(answer: Answer): string {
  return setCookies(answer)[0]?.split(';', 1)[0] ?? '';
}

async function signedIn(daemon: Daemon): Promise<string> {
  const answer = await signIn(daemon, { token: adminTokenOf(daemon) });
  if (answer.status !== 204) throw new Error(`the sign-in was answered ${answer.status}`);
  return cookieOf(answer);
}

async function statusOf(daemon: Daemon, headers: Headers, path = PROJECTS): Promise<number> {
  return (await send(daemon.adminBase, { path, headers })).status;
}

/** The code of the link that the command prints. */
async function codeOf(daemon: Daemon): Promise<string> {
  const { code, stdout, stderr } = await daemon.cli('ui');
  if (code !== 0) throw new Error(stderr);
  const found = /^(http:\S+)\/#code=([\w-]{64})\n$/.exec(stdout);
  if (found?.[1] !== daemon.adminBase) throw new Error(`not a link to the daemon: ${stdout}`);
  return found[2] ?? '';
}

t.test('one daemon', async (t) => {
  const daemon = await startDaemon(t);

  t.test('a start without a terminal prints no code; the command makes a link', async (t) => {
    t.notMatch(daemon.stdout() + daemon.stderr(), '#code=');
    t.match(daemon.stdout(), /Open the web UI: tracectl ui/);
    const code = await codeOf(daemon);
    const opened = await signIn(daemon, { code });
    t.equal(opened.status, 204);
    t.equal(await statusOf(daemon, { cookie: cookieOf(opened) }), 200);
    t.equal((await signIn(daemon, { code })).status, 401, 'the code was used');
    const { stdout } = await daemon.cli('audit', 'list');
    t.match(stdout, /cli .*ui_code\.create/);
    t.match(stdout, /ui-session:[0-9a-f]{12} +127\.0\.0\.1 +ui_session\.create/);
  });

  t.test('of twenty sign-ins with one code at the same time, one succeeds', async (t) => {
    const code = await codeOf(daemon);
    const all = await Promise.all(Array.from({ length: 20 }, () => signIn(daemon, { code })));
    t.equal(all.filter(({ status }) => status === 204).length, 1);
    t.equal(all.filter(({ status }) => status === 401).length, 19);
  });

  t.test('a form of another site changes nothing', async (t) => {
    const cookie = await signedIn(daemon);
    const forms: Headers[] = [
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'text/plain' },
      { 'content-type': 'multipart/form-data; boundary=x' },
    ];
    const senders: Headers[] = [
      { origin: 'http://evil.test', 'sec-fetch-site': 'cross-site' },
      { origin: 'null', 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'cross-site' },
      {},
    ];
    for (const type of forms) {
      for (const sender of senders) {
        const answer = await send(daemon.adminBase, {
          method: 'POST',
          path: PROJECTS,
          headers: { cookie, ...type, ...sender },
          body: '{"name":"forged"}',
        });
        t.equal(answer.status, 403, JSON.stringify({ type, sender }));
      }
    }
    const listed = await send(daemon.adminBase, { path: PROJECTS, headers: { cookie } });
    t.notMatch(listed.body.toString(), 'forged');
  });

  t.test('a script of another origin can neither read nor change', async (t) => {
    const cookie = await signedIn(daemon);
    const { hostname, port } = new URL(daemon.adminBase);
    const foreign = [
      'http://evil.test',
      `https://${hostname}:${port}.evil.test`,
      `http://${hostname}:${Number(port) + 1}`,
      `http://${hostname}`,
      'null',
    ];
    for (const origin of foreign) {
      const asked = { cookie, origin, 'x-tracectl-ui': '1' };
      for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
        const path = method === 'DELETE' ? SESSION : PROJECTS;
        const answer = await send(daemon.adminBase, { method, path, headers: asked });
        t.equal(answer.status, 403, `${method} from ${origin}`);
        t.equal(answer.headers['access-control-allow-origin'], undefined);
      }
    }
    for (const site of ['cross-site', 'same-site']) {
      const headers = { cookie, 'sec-fetch-site': site };
      t.equal(await statusOf(daemon, headers), 403, 'a tag of another page, without Origin');
    }
    t.equal(await statusOf(daemon, ownPage(daemon, cookie)), 200, 'the session still exists');
  });

  t.test('a name that an attacker rebinds to this host is refused', async (t) => {
    const cookie = await signedIn(daemon);
    for (const host of ['evil.test', '127.0.0.1.evil.test', 'localhost.evil.test', '']) {
      for (const path of ['/', '/traces', PROJECTS, SESSION, '/assets/x.js']) {
        const wire = await dial(daemon.adminBase);
        const lines = [`GET ${path} HTTP/1.1`, `Host: ${host}`, `Cookie: ${cookie}`];
        wire.send(`${lines.join('\r\n')}\r\nOrigin: http://${host}\r\n\r\n`);
        const { status, body } = await wire.answer();
        t.equal(status, 421, `${host} ${path}`);
        t.match(String(body), '"code":"misdirected"');
        wire.close();
      }
    }
  });

  t.test('a planted session is not adopted, and the sign-in ends it', async (t) => {
    const planted = await signedIn(daemon);
    const answer = await signIn(daemon, { code: await codeOf(daemon) }, { cookie: planted });
    const own = cookieOf(answer);
    t.not(own, planted);
    t.equal(await statusOf(daemon, { cookie: planted }), 401);
    t.equal(await statusOf(daemon, { cookie: own }), 200);
    t.equal(await statusOf(daemon, { cookie: `${own}; ${planted}` }), 401, 'two ids are no id');
  });

  t.test('a copied cookie is worthless after the sign-out', async (t) => {
    const cookie = await signedIn(daemon);
    const headers = ownPage(daemon, cookie);
    const out = await send(daemon.adminBase, { method: 'DELETE', path: SESSION, headers });
    t.equal(out.status, 204);
    t.match(setCookies(out), [/Max-Age=0/, /Max-Age=0/]);
    t.equal(await statusOf(daemon, { cookie }), 401);
  });

  t.test('the cookie is out of reach for scripts and other sites', async (t) => {
    const answer = await signIn(daemon, { token: adminTokenOf(daemon) });
    const shape = /^tracectl-ui-[0-9a-f]{8}=[\w-]{64}; Path=\/; HttpOnly; SameSite=Strict$/;
    t.match(setCookies(answer), [shape]);
    t.equal(answer.headers['cache-control'], 'no-store');
  });

  t.test('a page cannot be framed, and runs no foreign code', async (t) => {
    for (const path of ['/', '/traces/x', '/settings/keys', PROJECTS, '/none']) {
      const { headers } = await send(daemon.adminBase, { path });
      const policy = String(headers['content-security-policy']);
      t.match(policy, /default-src 'none'/);
      t.match(policy, /frame-ancestors 'none'/);
      t.notMatch(policy, /unsafe|\*|https?:/);
      t.equal(headers['x-frame-options'], 'DENY');
      t.equal(headers['x-content-type-options'], 'nosniff');
      t.equal(headers['referrer-policy'], 'no-referrer');
    }
  });

  t.test('no path leaves the files of the UI', async (t) => {
    for (const path of [
      ...['/assets/../../package.json', '/assets/..%2f..%2fpackage.json', '/..%2fpackage.json'],
      ...['/assets/%2e%2e/%2e%2e/etc/passwd', '/assets/....//etc/passwd', '//etc/passwd'],
      ...['/assets/..%5c..%5cpackage.json', '/assets/%00', '/index.html', '/main.tsx'],
    ]) {
      const wire = await dial(daemon.adminBase);
      wire.send(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
      const { status, body } = await wire.answer();
      t.equal(status, 404, path);
      t.match(String(body), '"code":"not_found"', path);
      wire.close();
    }
  });

  t.test('guessing is slowed down, and refuses no other client', async (t) => {
    const { code } = JSON.parse(
      (
        await send(daemon.adminBase, {
          method: 'POST',
          path: '/api/v1/sessions/codes',
          headers: { authorization: `Bearer ${adminTokenOf(daemon)}` },
        })
      ).body.toString(),
    );
    const guesses = [{ code: 'A'.repeat(64) }, { token: 'guess' }, { code: '' }];
    const statuses = new Set<number>();
    for (let i = 0; i < 30; i++) {
      statuses.add((await signIn(daemon, guesses[i % 3] ?? {})).status);
    }
    t.strictSame([...statuses].sort(), [401, 429]);
    t.equal((await signIn(daemon, { code })).status, 204);
    t.equal((await signIn(daemon, { token: adminTokenOf(daemon) })).status, 204);
  });

  t.test('sessions outlive a restart, and end with another admin token', async (t) => {
    const cookie = await signedIn(daemon);
    const code = await codeOf(daemon);
    await daemon.end('SIGTERM');
    await daemon.start();
    t.equal(await statusOf(daemon, { cookie }), 200);
    await daemon.end('SIGTERM');
    rmSync(join(daemon.directory, 'data', 'admin-token'));
    await daemon.start();
    t.equal(await statusOf(daemon, { cookie }), 401);
    t.equal((await signIn(daemon, { code })).status, 401);
    t.equal(await statusOf(daemon, { cookie: await signedIn(daemon) }), 200);
  });
});

t.test('with TLS the cookie is bound to this host and to TLS', async (t) => {
  const daemon = await startDaemon(t, {
    edit(config) {
      treeAt(config, 'extensions', 'admin').tls = {
        cert_file: fixture('server.pem'),
        key_file: fixture('server.key'),
      };
    },
  });
  const base = daemon.adminBase.replace('http:', 'https:');
  const { Agent } = await import('undici');
  const dispatcher = new Agent({ connect: { ca: readFileSync(fixture('ca.pem')) } });
  t.teardown(() => dispatcher.close());
  const { fetch } = await import('undici');
  const answer = await fetch(base + SESSION, {
    method: 'POST',
    headers: JSON_TYPE,
    body: JSON.stringify({ token: adminTokenOf(daemon) }),
    dispatcher,
  });
  t.equal(answer.status, 204);
  const [set = ''] = answer.headers.getSetCookie();
  const shape =
    /^__Host-tracectl-ui-[0-9a-f]{8}=[\w-]{64}; Path=\/; HttpOnly; SameSite=Strict; Secure$/;
  t.match(set, shape);
  const cookie = set.split(';', 1)[0] ?? '';
  const asked = (sent: string) => fetch(base + PROJECTS, { headers: { cookie: sent }, dispatcher });
  t.equal((await asked(cookie)).status, 200);
  const plain = cookie.replace('__Host-', '');
  t.equal((await asked(plain)).status, 401, 'a sibling without TLS can set this name');
  const { stdout } = await daemon.cli('ui');
  t.ok(stdout.startsWith(`${base}/#code=`));
});

t.test('without the extension admin there is no page and no link', async (t) => {
  const daemon = await startDaemon(t, {
    edit(config) {
      delete treeAt(config, 'extensions').admin;
      treeAt(config, 'service').extensions = ['sqlite', 'health_check'];
    },
  });
  for (const path of ['/', '/assets/x.js', SESSION]) {
    t.equal((await send(daemon.base, { path })).status, 404, path);
  }
  await t.rejects(send(daemon.adminBase, { path: '/' }), { code: 'ECONNREFUSED' });
  t.notMatch(daemon.stdout(), 'web UI');
  const { code, stderr } = await daemon.cli('ui');
  t.not(code, 0);
  t.match(stderr, /no admin API/);
});

t.test('a start in a terminal prints a link that signs in', async (t) => {
  const daemon = await prepareDaemon();
  t.teardown(() => daemon.remove());
  const command = `exec "${process.execPath}" "${daemonEntry()}" run --config "${daemon.configPath}"`;
  const child = spawn('script', ['-qfec', command, '/dev/null'], {
    cwd: daemon.directory,
    env: { ...process.env, ...PLAIN },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  let shown = '';
  const link = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
      const found = /(http:\/\/\S+\/#code=[\w-]{64})\r?\n/.exec(shown)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once('close', () => reject(new Error(`the daemon ended: ${shown}`)));
  });
  const [base, code] = link.split('/#code=');
  t.equal(base, daemon.adminBase);
  t.equal((await signIn(daemon, { code })).status, 204);
});
