import t, { type Test } from 'tap';
import { config as adminConfig } from '../../../extensions/admin/config.ts';
import { createExtension as createAdmin } from '../../../extensions/admin/extension.ts';
import { findOffer } from '../../../src/component/capability.ts';
import { ADMIN_API } from '../../../src/control/admin-api.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import type { Answered } from './serving.ts';
import { asker, serving, TOKEN } from './serving.ts';

const SESSION = '/api/v1/session';
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Served = Awaited<ReturnType<typeof serving>>;

/** Asks as a page does that is at the address of the UI. */
function pageOf({ url, ask }: Pick<Served, 'url' | 'ask'>, cookie: string) {
  const headers = { cookie, origin: url, 'x-tracectl-ui': '1', 'sec-fetch-site': 'same-origin' };
  return (method: string, path: string, more: Readonly<Record<string, string>> = {}) =>
    ask(method, path, { token: null, headers: { ...headers, ...more } });
}

function signIn(ask: Served['ask'], body: object, headers = {}): Promise<Answered> {
  return ask('POST', SESSION, { token: null, body, headers });
}

/** `name=value` of the only cookie that an answer sets. */
function cookieOf({ headers }: Pick<Answered, 'headers'>): string {
  const [cookie = ''] = headers.getSetCookie();
  return cookie.split(';', 1)[0] ?? '';
}

async function newCode({ ask }: Pick<Served, 'ask'>): Promise<string> {
  return (await ask('POST', '/api/v1/sessions/codes')).json.code;
}

async function signedIn(t: Test, options: Parameters<typeof serving>[1] = {}) {
  const served = await serving(t, options);
  const answer = await signIn(served.ask, { token: TOKEN });
  const cookie = cookieOf(answer);
  return { ...served, answer, cookie, page: pageOf(served, cookie) };
}

t.test('the admin token opens a session, which reads and changes as the token does', async (t) => {
  const { answer, page, store } = await signedIn(t);
  t.match(answer, { status: 204, text: '' });
  t.match(answer.headers.getSetCookie(), [
    /^tracectl-ui-[0-9a-f]{8}=[\w-]{64}; Path=\/; HttpOnly; SameSite=Strict$/,
  ]);
  t.equal((await page('GET', '/api/v1/projects')).status, 200);
  t.equal((await page('GET', '/api/v1/openapi.json')).status, 200);
  const [project] = await store.projects.list();
  t.equal((await page('GET', `/api/v1/projects/${project?.id}/traces`)).status, 200);
  const code = await page('POST', '/api/v1/sessions/codes');
  t.equal(code.status, 201, 'a change');
});

t.test('the audit log names the session, its sign-in and its sign-out', async (t) => {
  const { page, store, ask } = await signedIn(t);
  const { session } = (await page('GET', SESSION)).json;
  t.match(session, { signed_in_with: 'token', address: '127.0.0.1', is_current: true });
  t.match(session.id, /^[0-9a-f]{12}$/);
  const actor = `ui-session:${session.id}`;
  await page('POST', '/api/v1/sessions/codes');
  t.equal((await page('DELETE', SESSION)).status, 204);
  t.match(
    store.entries.map(({ actor, action, subject }) => [actor, action, subject]),
    [
      [actor, 'ui_session.create', session.id],
      [actor, 'ui_code.create', 'ui'],
      [actor, 'ui_session.end', session.id],
    ],
  );
  t.strictSame((await ask('GET', SESSION)).json, { session: null }, 'with the token');
});

t.test('a code opens one session, until the moment at which it expires', async (t) => {
  const served = await serving(t);
  const { ask, clock, url } = served;
  const made = await ask('POST', '/api/v1/sessions/codes');
  const { code } = made.json;
  t.equal(made.json.url, `${url}/#code=${code}`);
  t.equal(Date.parse(made.json.expires_at), clock.now() + 10 * MINUTE);
  clock.advance(10 * MINUTE - 1);
  const first = await signIn(ask, { code });
  t.equal(first.status, 204);
  t.equal((await pageOf(served, cookieOf(first))('GET', '/api/v1/projects')).status, 200);
  t.match(await signIn(ask, { code }), { status: 401, json: { code: 'unauthorized' } });

  const late = await newCode(served);
  clock.advance(10 * MINUTE);
  const refused = await signIn(ask, { code: late });
  t.equal(refused.status, 401);
  t.strictSame(refused.headers.getSetCookie(), []);
});

t.test('asks the store to keep at most 1,000 sessions and 100 codes', async (t) => {
  const served = await serving(t);
  const { addCode, open } = served.store.uiSessions;
  const bounds: number[] = [];
  Object.assign(served.store.uiSessions, {
    addCode: (...given: Parameters<typeof addCode>) => {
      bounds.push(given[1].most);
      return addCode(...given);
    },
    open: (...given: Parameters<typeof open>) => {
      bounds.push(given[1].most);
      return open(...given);
    },
  });
  t.equal((await signIn(served.ask, { code: await newCode(served) })).status, 204);
  t.same(bounds, [100, 1000]);
});

t.test('the link with a code has a name that the browser can reach', async (t) => {
  const { url } = await serving(t, { config: { endpoint: '0.0.0.0:0' } });
  const reached = url.replace('0.0.0.0', '127.0.0.1');
  const { json } = await asker(reached)('POST', '/api/v1/sessions/codes');
  t.equal(json.url, `${reached}/#code=${json.code}`);
});

t.test('a session ends 12 hours after its last use', async (t) => {
  const { page, clock } = await signedIn(t);
  clock.advance(12 * HOUR - 1);
  t.equal((await page('GET', '/api/v1/projects')).status, 200);
  clock.advance(12 * HOUR - 1);
  t.equal((await page('GET', '/api/v1/projects')).status, 200, 'the use prolonged it');
  clock.advance(12 * HOUR);
  const ended = await page('GET', '/api/v1/projects');
  t.match(ended, { status: 401, json: { code: 'unauthorized' } });
  t.match(ended.headers.getSetCookie(), [/^__Host-.*Secure$/, /^tracectl-ui-\w+=; .*Max-Age=0$/]);
});

t.test('a sign-out ends the session in the store and removes the cookie', async (t) => {
  const { page } = await signedIn(t);
  const ended = await page('DELETE', SESSION);
  t.equal(ended.status, 204);
  t.match(ended.headers.getSetCookie(), [/Max-Age=0/, /Max-Age=0/]);
  t.equal((await page('GET', '/api/v1/projects')).status, 401);
});

t.test('a stream of traces ends with its session', async (t) => {
  const { page, url, cookie, clock, store } = await signedIn(t);
  const [project] = await store.projects.list();
  const path = `/api/v1/projects/${project?.id}/traces/stream`;
  const stream = await fetch(url + path, { headers: { cookie } });
  t.equal(stream.status, 200);
  const ended = stream.text().then(
    () => 'ended',
    () => 'ended',
  );
  const isEnded = () => Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 50))]);
  clock.advance(15_000);
  t.equal(await isEnded(), undefined, 'while the session exists');
  t.equal((await page('DELETE', SESSION)).status, 204);
  for (let i = 0; i < 3; i++) {
    clock.advance(15_000);
    await isEnded();
  }
  t.equal(await isEnded(), 'ended');
});

t.test('a session lists the others and ends them', async (t) => {
  const { page, ask, clock } = await signedIn(t);
  clock.advance(1);
  const other = await signIn(ask, { token: TOKEN }, { 'user-agent': `Phone ${'x'.repeat(300)}` });
  const { sessions } = (await page('GET', '/api/v1/sessions/ui')).json;
  t.match(sessions, [{ is_current: false }, { is_current: true }]);
  t.equal(sessions[0].user_agent.length, 200);
  const path = `/api/v1/sessions/ui/${sessions[0].id}`;
  t.equal((await page('DELETE', path)).status, 204);
  t.match(await page('DELETE', path), { status: 404, json: { code: 'not_found' } });
  const theirs = { token: null, headers: { cookie: cookieOf(other) } };
  t.equal((await ask('GET', '/api/v1/projects', theirs)).status, 401);
  t.equal((await page('GET', '/api/v1/projects')).status, 200);
});

t.test('a sign-in takes a new id and ends the session of the former cookie', async (t) => {
  const { page, ask, cookie } = await signedIn(t);
  const again = await signIn(ask, { token: TOKEN }, { cookie });
  t.not(cookieOf(again), cookie);
  t.equal((await page('GET', '/api/v1/projects')).status, 401);
  const planted = `${cookie.split('=')[0]}=${'A'.repeat(64)}`;
  const fixed = await signIn(ask, { token: TOKEN }, { cookie: planted });
  t.not(cookieOf(fixed), planted, 'a planted id is not adopted');
});

t.test('a change by cookie needs the header and the origin of the UI', async (t) => {
  const { ask, url, cookie } = await signedIn(t);
  const origin = url;
  const marked = { 'x-tracectl-ui': '1' };
  const cases: [Readonly<Record<string, string>>, number][] = [
    [{ ...marked, origin }, 201],
    [{ ...marked, origin, 'sec-fetch-site': 'same-origin' }, 201],
    [{ ...marked, origin, 'sec-fetch-site': 'none' }, 201],
    [{}, 403],
    [{ origin }, 403],
    [marked, 403],
    [{ 'x-tracectl-ui': '0', origin }, 403],
    [{ ...marked, origin: 'null' }, 403],
    [{ ...marked, origin: 'http://127.0.0.1:1' }, 403],
    [{ ...marked, origin, 'sec-fetch-site': 'same-site' }, 403],
    [{ ...marked, origin, 'sec-fetch-site': 'cross-site' }, 403],
  ];
  for (const [headers, status] of cases) {
    const asked = { token: null, headers: { cookie, ...headers } };
    const answer = await ask('POST', '/api/v1/sessions/codes', asked);
    t.equal(answer.status, status, JSON.stringify(headers));
    if (status === 403) t.equal(answer.json.code, 'foreign_site');
  }
  const reads: [Readonly<Record<string, string>>, number][] = [
    [{}, 200],
    [{ 'sec-fetch-site': 'same-origin' }, 200],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
  ];
  for (const [headers, status] of reads) {
    const answer = await ask('GET', '/api/v1/projects', {
      token: null,
      headers: { cookie, ...headers },
    });
    t.equal(answer.status, status, JSON.stringify(headers));
  }
  const byToken = await ask('POST', '/api/v1/sessions/codes');
  t.equal(byToken.status, 201, 'a token in a header comes from no form');
});

t.test('a sign-in from a page of another origin is refused', async (t) => {
  const { ask } = await serving(t);
  for (const headers of [
    { origin: 'http://evil.test' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ]) {
    const refused = await signIn(ask, { token: TOKEN }, headers);
    t.match(refused, { status: 403, json: { code: 'foreign_site' } });
  }
  const form = { 'content-type': 'text/plain' };
  t.equal((await signIn(ask, { token: TOKEN }, form)).status, 415);
});

t.test('wrong tokens, codes and cookies are limited together, right ones never', async (t) => {
  const served = await serving(t);
  const { ask, clock } = served;
  const code = await newCode(served);
  const right = cookieOf(await signIn(ask, { token: TOKEN }));
  const name = right.split('=')[0] ?? '';
  const wrong = [
    () => signIn(ask, { token: 'wrong' }),
    () => signIn(ask, { code: `${code.slice(0, -1)}${code.endsWith('A') ? 'Q' : 'A'}` }),
    () => ask('GET', SESSION, { token: null, headers: { cookie: `${name}=guess` } }),
    () => ask('GET', SESSION, { token: 'wrong' }),
  ];
  for (let i = 0; i < 10; i++) t.equal((await wrong[i % 4]?.())?.status, 401);
  for (const guess of wrong) {
    const limited = await guess();
    t.match(limited, { status: 429, json: { code: 'rate_limited' } });
    t.equal(limited.headers.get('retry-after'), '6');
  }
  t.equal((await signIn(ask, { token: TOKEN })).status, 204);
  t.equal((await signIn(ask, { code })).status, 204);
  t.equal((await signIn(ask, { code })).status, 401, 'a used code is no guess');
  t.equal((await pageOf(served, right)('GET', SESSION)).status, 200);
  clock.advance(6_000);
  t.equal((await signIn(ask, { token: 'wrong' })).status, 401);
});

t.test('a body has either a code or a token', async (t) => {
  const { ask } = await serving(t);
  for (const body of [{}, { code: 'a', token: 'b' }, { token: 1 }, { code: 'a', more: 1 }]) {
    t.match(await signIn(ask, body), { status: 400, json: { code: 'invalid_request' } });
  }
});

t.test('another admin token ends every session and code', async (t) => {
  const served = await signedIn(t);
  const code = await newCode(served);
  const restarted = async (token: string) => {
    const config = adminConfig.parse({ endpoint: '127.0.0.1:0', store: 'sqlite', token });
    const admin = createAdmin(served.settings, config);
    await admin.start();
    t.teardown(() => admin.shutdown(NO_DEADLINE));
    const url = findOffer(admin.offers, ADMIN_API)?.url ?? '';
    return { url, ask: asker(url, token) };
  };
  const same = await restarted(TOKEN);
  t.equal((await pageOf(same, served.cookie)('GET', SESSION)).status, 200, 'a restart keeps it');
  const other = await restarted('another-admin-token');
  t.equal((await pageOf(other, served.cookie)('GET', SESSION)).status, 401);
  t.equal((await signIn(other.ask, { code })).status, 401);
  t.strictSame((await other.ask('GET', '/api/v1/sessions/ui')).json, { sessions: [] });
  t.equal((await signIn(same.ask, { code })).status, 204);
});

t.test('behind a proxy with TLS the cookie is bound to the host and to TLS', async (t) => {
  const { ask, url } = await serving(t);
  const origin = url.replace('http:', 'https:');
  const answer = await signIn(ask, { token: TOKEN }, { origin });
  t.match(answer.headers.getSetCookie(), [
    /^__Host-tracectl-ui-\w{8}=[\w-]{64}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
  ]);
  const cookie = cookieOf(answer);
  t.equal((await ask('GET', SESSION, { token: null, headers: { cookie } })).status, 200);
  const twice = `${cookie}; ${cookie.slice(0, -1)}A`;
  t.equal((await ask('GET', SESSION, { token: null, headers: { cookie: twice } })).status, 401);
});

t.test('neither the store, the log nor the audit log has a secret', async (t) => {
  const { store, settings, cookie, page } = await signedIn(t);
  const { code } = (await page('POST', '/api/v1/sessions/codes')).json;
  const seen = JSON.stringify([store.entries, settings.logger.lines]);
  for (const secret of [code, cookie.split('=')[1], TOKEN]) t.notMatch(seen, secret);
});

t.test('a store that fails gives 503, and not a sign-in', async (t) => {
  const { store, page, ask } = await signedIn(t);
  store.fail(new Error('away'));
  t.equal((await page('GET', '/api/v1/status')).status, 503);
  const refused = await signIn(ask, { token: TOKEN });
  t.equal(refused.status, 503);
  t.strictSame(refused.headers.getSetCookie(), []);
});

t.test('a session reads a store that takes no writes, and is not prolonged', async (t) => {
  const { store, page, clock } = await signedIn(t);
  store.uiSessions.use = async () => {
    throw new RetryableError('storage_full', 'the disk is full');
  };
  clock.advance(2 * MINUTE);
  t.equal((await page('GET', '/api/v1/projects')).status, 200);
  clock.advance(12 * HOUR - 2 * MINUTE);
  t.equal((await page('GET', '/api/v1/projects')).status, 401);
});
