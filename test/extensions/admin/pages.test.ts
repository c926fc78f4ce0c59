import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { dial } from '../../helper/wire.ts';
import { serving } from './serving.ts';

const SCRIPT = 'console.log("ü");\n';
const INDEX = '<!doctype html><title>tracectl</title>';

async function servingPages(t: Test) {
  const pages = t.testdir({
    'index.html': INDEX,
    'secret.txt': 'not a page',
    assets: {
      'app-Ab12_-9z.js': SCRIPT,
      'app-Ab12_-9z.js.br': brotliCompressSync(SCRIPT),
      'app-Ab12_-9z.js.gz': gzipSync(SCRIPT),
      'app-1.css': 'a{}',
      'icon-1.svg': '<svg/>',
      'notes.txt': 'not of a page',
    },
  });
  return serving(t, { pages });
}

/** Asks without the decompression of `fetch`. */
async function raw(url: string, path: string, headers: readonly string[] = []) {
  const wire = await dial(url);
  const lines = [`GET ${path} HTTP/1.1`, `Host: ${new URL(url).host}`, ...headers];
  wire.send(`${lines.join('\r\n')}\r\n\r\n`);
  const answer = await wire.answer();
  wire.close();
  return answer;
}

t.test('the paths of pages answer the index, which is never cached', async (t) => {
  const { ask } = await servingPages(t);
  for (const path of [
    ...['/', '/start', '/traces', '/traces/a%2Fb', '/traces?q=status%3Aerror', '/sessions'],
    ...['/sessions/s', '/users', '/users/u', '/dashboard', '/rejected', '/pipelines'],
    ...['/settings', '/settings/projects', '/settings/keys', '/settings/usage'],
  ]) {
    const answer = await ask('GET', path, { token: null });
    t.match(answer, { status: 200, text: INDEX }, path);
    t.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8', path);
    t.equal(answer.headers.get('cache-control'), 'no-store', path);
  }
  const head = await ask('HEAD', '/traces', { token: null });
  t.match(head, { status: 200, text: '' });
  t.equal(head.headers.get('content-length'), String(INDEX.length));
});

t.test('an address of an id that cannot be read answers the index with 404', async (t) => {
  const { ask } = await servingPages(t);
  const long = `/traces/${'x'.repeat(5_000)}`;
  for (const path of ['/traces/%', '/sessions/%ff?project=p', '/users/a%zz', long]) {
    const answer = await ask('GET', path, { token: null });
    t.match(answer, { status: 404, text: INDEX }, path.slice(0, 30));
    t.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
    t.match(answer.headers.get('content-security-policy'), "script-src 'self'");
  }
  for (const path of ['/api/v1/projects/%', '/assets/%', '/traces/a/%', '/nothing/%']) {
    const answer = await ask('GET', path, { token: null });
    t.match(answer, { status: 400, json: { code: 'invalid_request' } }, path);
  }
});

t.test('the headers of a page forbid foreign code, frames, sniffing and referrers', async (t) => {
  const { ask } = await servingPages(t);
  for (const path of ['/', '/assets/app-Ab12_-9z.js']) {
    const { headers } = await ask('GET', path, { token: null });
    t.equal(
      headers.get('content-security-policy'),
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
        "img-src 'self' data:; font-src 'none'; base-uri 'none'; form-action 'none'; " +
        "frame-ancestors 'none'",
    );
    t.equal(headers.get('x-frame-options'), 'DENY');
    t.equal(headers.get('x-content-type-options'), 'nosniff');
    t.equal(headers.get('referrer-policy'), 'no-referrer');
    t.equal(headers.get('cross-origin-opener-policy'), 'same-origin');
    t.equal(headers.get('cross-origin-resource-policy'), 'same-origin');
    t.equal(headers.get('set-cookie'), null);
  }
});

t.test('assets are immutable and sent as the client accepts them', async (t) => {
  const { url } = await servingPages(t);
  const cases: [accepts: string, encoding: string | undefined][] = [
    ['br, gzip', 'br'],
    ['gzip, deflate, BR', 'br'],
    ['gzip;q=1, br;q=0', 'gzip'],
    ['gzip, br; q=0.000', 'gzip'],
    ['identity', undefined],
    ['', undefined],
    ['xbr, br2', undefined],
  ];
  for (const [accepts, encoding] of cases) {
    const { status, headers, body } = await raw(url, '/assets/app-Ab12_-9z.js', [
      `Accept-Encoding: ${accepts}`,
    ]);
    t.equal(status, 200);
    t.equal(headers['content-encoding'], encoding, accepts);
    const plain = { br: brotliDecompressSync, gzip: gunzipSync }[encoding ?? ''];
    t.equal(String(plain?.(body) ?? body), SCRIPT);
    t.equal(headers['content-length'], String(body.length));
    t.equal(headers['content-type'], 'text/javascript; charset=utf-8');
    t.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
    t.equal(headers.vary, 'accept-encoding');
  }
  const { headers } = await raw(url, '/assets/app-1.css', ['Accept-Encoding: br']);
  t.match(headers, { 'content-type': 'text/css; charset=utf-8' });
  t.notOk('content-encoding' in headers, 'without a compressed file');
  const icon = await raw(url, '/assets/icon-1.svg');
  t.equal(icon.headers['content-type'], 'image/svg+xml');
});

t.test('a file that does not exist is 404 and never the page', async (t) => {
  const { url, ask } = await servingPages(t);
  for (const path of [
    ...['/assets/none.js', '/assets/', '/assets', '/assets/app-Ab12_-9z.js/x', '/secret.txt'],
    ...['/index.html', '/assets/notes.txt', '/assets/app-Ab12_-9z.js.br', '/favicon.ico', '/x'],
    ...['/traces/a/b', '/settings/keys/x', '/api', '/api/v1', '/api/v1/none'],
    ...['/assets/../secret.txt', '/assets/..%2fsecret.txt', '/assets/%2e%2e/index.html'],
    ...['/assets/%2e%2e%2findex.html', '/..%2f..%2f..%2fetc%2fpasswd', '/assets/..\\secret.txt'],
    ...['//index.html', '/assets//etc/passwd', '/assets/app-Ab12_-9z.js%00.css', '/%00'],
    ...['/assets/constructor', '/assets/__proto__'],
  ]) {
    const { status, body } = await raw(url, path);
    t.equal(status, 404, path);
    t.equal(JSON.parse(String(body)).code, 'not_found', path);
  }
  t.equal((await ask('POST', '/traces', { token: null, body: {} })).status, 404);
});

t.test('a foreign Host gets no page', async (t) => {
  const { url } = await servingPages(t);
  const wire = await dial(url);
  wire.send('GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n');
  t.equal((await wire.answer()).status, 421);
  wire.close();
});

t.test('without built files the page says how to build them', async (t) => {
  const { ask } = await serving(t, { pages: join(t.testdir(), 'none') });
  const answer = await ask('GET', '/', { token: null });
  t.match(answer, { status: 503, text: /npm run build:ui/ });
  t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
  t.equal((await ask('GET', '/assets/a.js', { token: null })).status, 404);
  t.equal((await ask('GET', '/api/v1/projects')).status, 200);
});
