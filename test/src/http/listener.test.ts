import { once } from 'node:events';
import { connect } from 'node:net';
import type { Test } from 'tap';
import t from 'tap';
import type { Offer } from '../../../src/component/capability.ts';
import { offer } from '../../../src/component/capability.ts';
import { MAX_PIPELINED } from '../../../src/http/connection-requests.ts';
import { renderEnvelopeRefusal } from '../../../src/http/envelope.ts';
import type { Exchange } from '../../../src/http/exchange.ts';
import { answer } from '../../../src/http/exchange.ts';
import type { Listener } from '../../../src/http/listener.ts';
import type { Route } from '../../../src/http/routes.ts';
import { checkInterval, type ServerLimits } from '../../../src/http/server.ts';
import type { Store } from '../../../src/store/store.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { NO_DEADLINE, testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';
import { dial } from '../../helper/wire.ts';

const HOST = 'Host: t\r\n';

/** A route of a test; without a handler it never answers. */
function echo(path: string, more: Partial<Route> = {}): Route {
  return {
    method: 'GET',
    path,
    renderRefusal: renderEnvelopeRefusal,
    handler: () => {},
    ...more,
  };
}

function reply(exchange: Exchange, text = 'ok'): void {
  answer(exchange, { status: 200, contentType: 'text/plain', body: text });
}

async function opened(
  t: Test,
  routes: readonly Route[],
  limits: Partial<ServerLimits> = {},
): Promise<{ listener: Listener; url: string }> {
  const listeners = testListeners();
  const listener = await listeners.bind('127.0.0.1:0', { ...USUAL_LIMITS, ...limits });
  for (const route of routes) listener.route(route);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  return { listener, url: urlOf(listener) };
}

const hello = echo('/hello/:name', {
  handler: (exchange) => reply(exchange, `${exchange.params.name}|${exchange.query}`),
});
const plain = echo('/plain', { method: 'POST', handler: (exchange) => reply(exchange) });

t.test('routes a request by its method and path', async (t) => {
  const { url } = await opened(t, [hello, plain]);
  const found = await fetch(`${url}/hello/a%20b?x=1`);
  t.equal(found.status, 200);
  t.equal(await found.text(), 'a b|x=1');

  const unknown = await fetch(`${url}/unknown`);
  t.equal(unknown.status, 404);
  t.match(await unknown.json(), { code: 'not_found' });

  const wrong = await fetch(`${url}/plain`);
  t.equal(wrong.status, 405);
  t.equal(wrong.headers.get('allow'), 'POST');
  t.match(await wrong.json(), { code: 'method_not_allowed' });

  const headed = await fetch(`${url}/hello/x`, { method: 'HEAD' });
  t.equal(headed.status, 200);
  t.equal(await headed.text(), '');
});

t.test('answers malformed targets 400 or 404, and serves the next request', async (t) => {
  const { url } = await opened(t, [hello]);
  for (const [target, status] of [
    ['http://[', 400],
    ['//', 404],
    ['/hello/%ff%fe', 400],
    ['/hello/%', 400],
    ['/hello/%zz', 400],
    ['/hello/', 404],
    ['*', 404],
    ['http://elsewhere.example/hello/x', 200],
    ['ftp://elsewhere.example/hello/x', 400],
  ] as const) {
    const wire = await dial(url);
    wire.send(`GET ${target} HTTP/1.1\r\n${HOST}\r\n`);
    t.equal((await wire.answer()).status, status, target);
    wire.close();
  }
  t.equal((await fetch(`${url}/hello/x`)).status, 200);
});

t.test('answers malformed HTTP 400 and ends the connection', async (t) => {
  const { url } = await opened(t, [plain]);
  const start = `POST /plain HTTP/1.1\r\n${HOST}`;
  for (const text of [
    `${start}Content-Length: -1\r\n\r\n`,
    `${start}Content-Length: 18446744073709551616\r\n\r\n`,
    `${start}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
    `${start}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${start}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    `${start}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    `${start}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`,
    `${start}Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n`,
    `${start}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
    `${start}X-A: a\u0000b\r\nContent-Length: 0\r\n\r\n`,
    `${start}X-A: a\r\n folded\r\nContent-Length: 0\r\n\r\n`,
    `${start}host: other\r\nContent-Length: 0\r\n\r\n`,
    `${start}${HOST}Content-Length: 0\r\n\r\n`,
    'POST /plain HTTP/1.1\r\nContent-Length: 0\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'nonsense\r\n\r\n',
  ]) {
    const wire = await dial(url);
    wire.send(Buffer.from(text, 'latin1'));
    const got = await wire.answer();
    t.equal(got.status, 400, JSON.stringify(text));
    t.equal(got.headers.connection, 'close');
    await wire.ended();
  }
});

t.test(
  'ends a connection whose next bytes could be misread, and begins nothing behind',
  async (t) => {
    let begun = 0;
    const counted = echo('/counted', {
      method: 'POST',
      handler: (exchange) => {
        begun++;
        exchange.request.resume();
        reply(exchange);
      },
    });
    const { url } = await opened(t, [counted, hello]);
    const start = `POST /counted HTTP/1.1\r\n${HOST}`;
    const next = `${start}Content-Length: 0\r\n\r\n`;
    for (const [text, status, handled] of [
      [`${start}Expect: something\r\nContent-Length: ${next.length}\r\n\r\n${next}`, 417, 0],
      [`${start}Expect: something\r\nContent-Length: ${next.length}\r\n\r\n`, 417, 0],
      [`${start}Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n${next}`, 200, 1],
      [`${start}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n${next}`, 400, 0],
      [`POST /counted HTTP/1.1\r\nContent-Length: 0\r\n\r\n${next}`, 400, 0],
      [`GET /hello/% HTTP/1.1\r\n${HOST}\r\n${next}`, 400, 0],
      [`CONNECT elsewhere:443 HTTP/1.1\r\n${HOST}\r\n${next}`, 400, 0],
    ] as const) {
      begun = 0;
      const wire = await dial(url);
      wire.send(text);
      const got = await wire.answer();
      t.equal(got.status, status, JSON.stringify(text));
      t.equal(got.headers.connection, 'close');
      if (status !== 200) t.match(JSON.parse(String(got.body)), { code: 'invalid_request' });
      await wire.ended();
      t.equal(begun, handled);
    }
  },
);

t.test('answers no CONNECT in the place of an earlier request', async (t) => {
  const { promise: gate, resolve } = Promise.withResolvers<void>();
  t.teardown(resolve);
  const { url } = await opened(t, [echo('/held', { handler: () => gate })]);
  const wire = await dial(url);
  wire.send(`GET /held HTTP/1.1\r\n${HOST}\r\nCONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`);
  await wire.ended();
  await t.rejects(wire.answer(), { message: 'the connection ended after ""' });
});

t.test('refuses a request of HTTP/1.1 without a Host in the shape of its route', async (t) => {
  const { url } = await opened(t, [plain]);
  const ask = async (version: string, path = '/plain') => {
    const wire = await dial(url);
    t.teardown(() => wire.close());
    wire.send(`POST ${path} HTTP/${version}\r\nContent-Length: 0\r\n\r\n`);
    return await wire.answer();
  };
  for (const path of ['/plain', '/none']) {
    const refused = await ask('1.1', path);
    t.equal(refused.status, 400, path);
    t.equal(refused.headers['connection'], 'close', path);
    t.match(JSON.parse(refused.body.toString()), {
      code: 'invalid_request',
      message: 'The request has no Host header.',
    });
  }
  t.equal((await ask('1.0')).status, 200);
  t.equal((await ask('1.0', '/none')).status, 404);
});

t.test('checks time-outs at a fifth of the shortest, and never all the time', async (t) => {
  const interval = (readHeaderTimeout: number, readTimeout: number): number =>
    checkInterval({ ...USUAL_LIMITS, readHeaderTimeout, readTimeout });
  t.equal(interval(5_000, 60_000), 1_000);
  t.equal(interval(10, 60_000), 50);
  t.equal(interval(10_001, 60_000), 2_000);
  t.equal(interval(0, 60_000), 2_000, 'a head without a time-out has that of the whole request');
  t.equal(interval(0, 1_000), 200);
  t.equal(interval(10_000, 1_000), 200);
  t.equal(interval(0, 0), 2_000);
});

t.test('takes headers of less than 32 KiB, and answers larger ones 431', async (t) => {
  const { url } = await opened(t, [plain]);
  const others = ['/plain', 'Host', 't', 'Content-Length', '0', 'X-A'].join('').length;
  const most = 32_768 - others - 1;
  for (const [length, status] of [
    [most, 200],
    [most + 1, 431],
    [65_536, 431],
  ] as const) {
    const wire = await dial(url);
    const headers = `${HOST}Content-Length: 0\r\nX-A: ${'a'.repeat(length)}`;
    wire.send(`POST /plain HTTP/1.1\r\n${headers}\r\n\r\n`);
    t.equal((await wire.answer()).status, status, `${length}`);
    if (status === 200) wire.close();
    await wire.ended();
  }
});

t.test('answers slow heads and slow bodies 408 in the shape of their route', async (t) => {
  const slow = echo('/slow', {
    method: 'POST',
    renderRefusal: ({ status, code }) => ({ status, contentType: 'text/plain', body: code }),
    handler: async ({ request }) => {
      request.resume();
      await once(request, 'close');
    },
  });
  const limits = { readHeaderTimeout: 150, readTimeout: 300 };
  const { url } = await opened(t, [slow], limits);
  const head = await dial(url);
  head.send('POST /slow HTTP/1.1\r\nHost: t\r\nX: ');
  const body = await dial(url);
  body.send(`POST /slow HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\nab`);
  const [first, second] = await Promise.all([head.answer(), body.answer()]);
  t.equal(first.status, 408);
  t.equal(JSON.parse(String(first.body)).code, 'request_timeout');
  t.equal(second.status, 408);
  t.equal(String(second.body), 'request_timeout');
  await Promise.all([head.ended(), body.ended()]);
});

t.test('bounds the time of a head if one of its two time-outs is 0', async (t) => {
  for (const limits of [
    { readHeaderTimeout: 150, readTimeout: 0 },
    { readHeaderTimeout: 0, readTimeout: 150 },
  ]) {
    const { url } = await opened(t, [plain], limits);
    const head = await dial(url);
    head.send('POST /plain HTTP/1.1\r\nHost: t\r\nX: ');
    t.equal((await head.answer()).status, 408);
    await head.ended();
  }
});

t.test('answers pipelined requests in their order', async (t) => {
  const release = new Map<string, () => void>();
  const held = echo('/held/:id', {
    handler: async (exchange) => {
      const id = exchange.params.id ?? '';
      await new Promise<void>((resolve) => release.set(id, resolve));
      reply(exchange, id);
    },
  });
  const { url } = await opened(t, [held, hello]);
  const wire = await dial(url);
  wire.send(`GET /held/1 HTTP/1.1\r\n${HOST}\r\nGET /hello/2 HTTP/1.1\r\n${HOST}\r\n`);
  await until(() => release.has('1'));
  release.get('1')?.();
  t.equal(String((await wire.answer()).body), '1');
  t.equal(String((await wire.answer()).body), '2|');
  wire.close();
});

t.test('handles reading requests of a connection one after the other', async (t) => {
  const begun: string[] = [];
  const release = new Map<string, () => void>();
  const held = echo('/held/:id', {
    oneAtATime: true,
    handler: async (exchange) => {
      const id = exchange.params.id ?? '';
      begun.push(id);
      await new Promise<void>((resolve) => release.set(id, resolve));
      reply(exchange, id);
    },
  });
  const { url } = await opened(t, [held, hello]);
  const [wire, other] = [await dial(url), await dial(url)];
  const ids = Array.from({ length: MAX_PIPELINED }, (_, i) => String(i));
  wire.send(ids.map((id) => `GET /held/${id} HTTP/1.1\r\n${HOST}\r\n`).join(''));
  await until(() => begun.length === 1);
  other.send(`GET /held/other HTTP/1.1\r\n${HOST}\r\n`);
  await until(() => begun.length === 2);
  t.same(begun, ['0', 'other'], 'another connection does not wait');
  for (const [i, id] of ids.entries()) {
    await until(() => release.has(id));
    t.equal(begun.length, i + 2, 'one at a time');
    release.get(id)?.();
    t.equal(String((await wire.answer()).body), id);
  }
  wire.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
  t.equal(String((await wire.answer()).body), 'x|', 'the connection goes on');
  wire.close();
  other.close();
});

t.test(
  'begins a request soon beside hundreds of pipelined ones of other connections',
  async (t) => {
    const begun: string[] = [];
    const noted = echo('/noted/:id', {
      handler: (exchange) => {
        begun.push(exchange.params.id ?? '');
        reply(exchange);
      },
    });
    const { url } = await opened(t, [noted]);
    const request = (id: string): string => `GET /noted/${id} HTTP/1.1\r\n${HOST}\r\n`;
    const many = await Promise.all(Array.from({ length: 10 }, () => dial(url)));
    const other = await dial(url);
    for (const wire of [...many, other]) {
      wire.send(request('first'));
      await wire.answer();
    }
    begun.length = 0;
    for (const wire of many) wire.send(request('many').repeat(MAX_PIPELINED));
    other.send(request('other'));
    // All of them have arrived when the event loop goes on.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    await until(() => begun.length === 10 * MAX_PIPELINED + 1);
    t.ok(begun.indexOf('other') < 64, `${begun.indexOf('other')} began before it`);
    for (const wire of [...many, other]) wire.close();
  },
);

t.test('cuts a client that pipelines one request more than it may', async (t) => {
  const begun: string[] = [];
  const held = echo('/held/:id', {
    oneAtATime: true,
    handler: ({ params }) => void begun.push(params.id ?? ''),
  });
  const { url, listener } = await opened(t, [held]);
  const wire = await dial(url);
  wire.send(`GET /held/x HTTP/1.1\r\n${HOST}\r\n`.repeat(MAX_PIPELINED + 1));
  await wire.ended();
  t.equal(begun.length, 1);
  const stop = new AbortController();
  t.teardown(() => stop.abort());
  await listener.close(stop.signal);
  t.pass('no request is left in progress');
});

t.test('cuts a client that does not read its answer, and no slow handler', async (t) => {
  const cut = Promise.withResolvers<void>();
  const large = echo('/large', {
    handler(exchange) {
      exchange.response.once('close', () => cut.resolve());
      reply(exchange, 'x'.repeat(32_000_000));
    },
  });
  const release: (() => void)[] = [];
  const slow = echo('/slow', {
    handler: async (exchange) => {
      await new Promise<void>((resolve) => release.push(resolve));
      reply(exchange);
    },
  });
  const { url } = await opened(t, [large, slow], { writeTimeout: 200 });
  const { port, hostname } = new URL(url);
  const patient = await dial(url);
  patient.send(`GET /slow HTTP/1.1\r\n${HOST}\r\n`);
  const deaf = connect(Number(port), hostname);
  const closed = once(deaf, 'close');
  deaf.on('error', () => undefined);
  deaf.pause();
  deaf.write(`GET /large HTTP/1.1\r\n${HOST}\r\n`);
  await cut.promise;
  // Only now the client looks at its socket.
  let received = 0;
  deaf.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  deaf.resume();
  await closed;
  t.ok(received < 32_000_000, 'the answer was cut');
  release[0]?.();
  t.equal((await patient.answer()).status, 200);
  patient.close();
});

t.test('answers 503 and logs when a handler throws, and serves other requests', async (t) => {
  const listeners = testListeners();
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  t.teardown(() => listener.close(AbortSignal.abort()));
  listener.route(
    echo('/throws', {
      handler: () => {
        throw new Error('at once');
      },
    }),
  );
  listener.route(echo('/rejects', { handler: () => Promise.reject(new Error('later')) }));
  await listener.open();
  for (const path of ['/throws', '/rejects']) {
    const answered = await fetch(urlOf(listener) + path);
    t.equal(answered.status, 503);
    t.ok(answered.headers.get('retry-after'));
  }
  t.equal(listeners.logger.lines.filter(({ level }) => level === 'error').length, 2);
});

t.test('shares a server between receivers of one address, each with its own routes', async (t) => {
  const listeners = testListeners();
  const free = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  await free.open();
  const port = new URL(urlOf(free)).port;
  await free.close(NO_DEADLINE);

  const one = await listeners.bind(`127.0.0.1:${port}`, USUAL_LIMITS);
  const two = await listeners.bind(`localhost:${port}`, USUAL_LIMITS);
  t.teardown(() => Promise.all([one, two].map((each) => each.close(AbortSignal.abort()))));
  one.route(hello);
  two.route(plain);
  t.throws(() => two.route(hello), /already served/);
  await t.rejects(
    listeners.bind(`127.0.0.1:${port}`, { ...USUAL_LIMITS, readTimeout: 1, proxyProtocol: true }),
    /share 127.* different values of read_timeout, proxy_protocol: give them the same, or /,
  );
  await one.open();
  t.equal((await fetch(`${urlOf(one)}/plain`, { method: 'POST' })).status, 404, 'not open yet');
  await two.open();
  t.equal((await fetch(`${urlOf(one)}/plain`, { method: 'POST' })).status, 200);
  t.match(listeners.served(), [{ url: urlOf(one), routes: ['GET /hello/:name', 'POST /plain'] }]);

  await one.close(NO_DEADLINE);
  t.equal((await fetch(`${urlOf(two)}/hello/x`)).status, 503, 'its receiver is closed');
  t.equal((await fetch(`${urlOf(two)}/plain`, { method: 'POST' })).status, 200);
  const url = urlOf(two);
  await two.close(NO_DEADLINE);
  await t.rejects(fetch(url), { message: 'fetch failed' }, 'the server is closed');
});

t.test(
  'serves reading requests through a receiver with a store, else through another one',
  async (t) => {
    const listeners = testListeners();
    const probe = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
    await probe.open();
    const endpoint = `127.0.0.1:${new URL(urlOf(probe)).port}`;
    await probe.close(NO_DEADLINE);
    const plain = await listeners.bind(endpoint, USUAL_LIMITS);
    await plain.open();
    const me = async (): Promise<string | number> => {
      const answered = await fetch(`http://${endpoint}/api/v1/me`);
      if (answered.status !== 200) return answered.status;
      const { project } = (await answered.json()) as { project: { id: string } };
      return project.id;
    };
    t.equal(await me(), 404, 'a listener without an entrance serves no reading requests');
    const entrance = (projectId: string, offers: readonly Offer[]) => ({
      pipeline: sinkPipeline(createSink(), { tenant: aTenant({ projectId }), offers }),
      fallback: undefined,
    });
    const bind = (projectId: string, ...offers: Offer[]) =>
      listeners.bind(endpoint, USUAL_LIMITS, entrance(projectId, offers));
    const store = { projects: { get: async () => undefined }, keys: { list: async () => [] } };
    const without = await bind('proj_without');
    const first = await bind('proj_first', offer(STORE, store as unknown as Store));
    const second = await bind('proj_second', offer(STORE, store as unknown as Store));
    const all = [plain, without, first, second];
    t.teardown(() => Promise.all(all.map((each) => each.close(AbortSignal.abort()))));
    for (const each of [without, first, second]) await each.open();
    t.equal(await me(), 'proj_first');
    await first.close(NO_DEADLINE);
    t.equal(await me(), 'proj_second');
    await second.close(NO_DEADLINE);
    t.equal(await me(), 'proj_without');
    await without.close(NO_DEADLINE);
    t.equal(await me(), 503);
    const answered = await fetch(`http://${endpoint}/api/v1/me`, { method: 'POST' });
    t.equal(answered.status, 405);
  },
);

t.test('hands a listener over to the next graph without a gap', async (t) => {
  const listeners = testListeners();
  const probe = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  await probe.open();
  const endpoint = `127.0.0.1:${new URL(urlOf(probe)).port}`;
  await probe.close(NO_DEADLINE);
  const before = await listeners.bind(endpoint, USUAL_LIMITS);
  const old = (path: string): Route =>
    echo(path, { handler: (exchange) => reply(exchange, 'old') });
  before.route(old('/both'));
  before.route(old('/gone'));
  await before.open();
  const after = await listeners.nextGraph().bind(endpoint, { ...USUAL_LIMITS, maxConnections: 50 });
  t.teardown(() => after.close(AbortSignal.abort()));
  after.route(echo('/both', { handler: (exchange) => reply(exchange, 'new') }));
  const ask = async (path: string): Promise<string> => {
    const answered = await fetch(urlOf(after) + path);
    return answered.status === 200 ? await answered.text() : String(answered.status);
  };
  t.equal(await ask('/both'), 'old', 'the next graph is not open yet');
  await after.open();
  t.equal(await ask('/both'), 'new');
  t.equal(await ask('/gone'), 'old', 'its receiver is still open');
  await before.close(NO_DEADLINE);
  t.equal(await ask('/both'), 'new');
  t.equal(await ask('/gone'), '404');
});

t.test('keeps serving the routes of a receiver that a reload keeps', async (t) => {
  const listeners = testListeners();
  const probe = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  await probe.open();
  const endpoint = `127.0.0.1:${new URL(urlOf(probe)).port}`;
  await probe.close(NO_DEADLINE);
  const kept = await listeners.bind(endpoint, USUAL_LIMITS);
  const leaving = await listeners.bind(endpoint, USUAL_LIMITS);
  kept.route(hello);
  const changed = (text: string) =>
    echo('/changed', { handler: (exchange) => reply(exchange, text) });
  leaving.route(changed('old'));
  for (const each of [kept, leaving]) await each.open();
  const next = await listeners.nextGraph().bind(endpoint, USUAL_LIMITS);
  next.route(changed('new'));
  await next.open();
  await leaving.close(NO_DEADLINE);
  t.teardown(() => Promise.all([kept, next].map((each) => each.close(AbortSignal.abort()))));
  t.equal((await fetch(`${urlOf(kept)}/hello/x`)).status, 200);
  t.equal(await (await fetch(`${urlOf(kept)}/changed`)).text(), 'new');
});

t.test(
  'finishes requests, closes idle connections and cuts at the deadline when it closes',
  async (t) => {
    let release = (): void => {};
    const entered = Promise.withResolvers<void>();
    const held = echo('/held', {
      handler: async (exchange) => {
        entered.resolve();
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        reply(exchange, 'done');
      },
    });
    const { listener, url } = await opened(t, [held, hello]);
    const silent = await dial(url);
    const kept = await dial(url);
    kept.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
    await kept.answer();
    const busy = await dial(url);
    busy.send(`GET /held HTTP/1.1\r\n${HOST}\r\n`);
    await entered.promise;
    const closed = listener.close(NO_DEADLINE);
    await Promise.all([kept.ended(), silent.ended()]);
    await t.rejects(dial(url), { code: 'ECONNREFUSED' }, 'no new connection');
    release();
    const last = await busy.answer();
    t.equal(String(last.body), 'done');
    t.equal(last.headers.connection, 'close');
    await closed;

    const stuck = await opened(t, [echo('/stuck', { handler: () => new Promise(() => {}) })]);
    const wire = await dial(stuck.url);
    wire.send(`GET /stuck HTTP/1.1\r\n${HOST}\r\n`);
    await fetch(`${stuck.url}/`);
    await stuck.listener.close(AbortSignal.abort());
    await wire.ended();
  },
);

t.test('reports an address that is in use with a clear sentence', async (t) => {
  const { url } = await opened(t, []);
  const listeners = testListeners();
  const second = await listeners.bind(new URL(url).host, USUAL_LIMITS);
  await t.rejects(
    second.open(),
    /cannot listen on 127\.0\.0\.1:\d+: another program listens there/,
  );
  await second.close(NO_DEADLINE);
});

for (const bounds of [{ maxConnections: 2 }, { maxConnectionsPerAddress: 2 }]) {
  t.test(`replaces an idle connection beyond ${Object.keys(bounds)}`, async (t) => {
    const { url } = await opened(t, [hello], bounds);
    const used = await dial(url);
    used.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
    t.equal((await used.answer()).status, 200);
    const silent = await dial(url);
    const third = await dial(url);
    await silent.ended();
    for (const wire of [used, third]) {
      wire.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
      t.equal((await wire.answer()).status, 200);
      wire.close();
    }
  });
}

const ONE_LOOPBACK = process.platform === 'darwin' && 'this system has one loopback address';

t.test(
  'tells connections from one port to two addresses of the host apart',
  {
    skip: ONE_LOOPBACK,
  },
  async (t) => {
    const reached = Promise.withResolvers<void>();
    const held = echo('/held', { handler: () => reached.resolve() });
    const listeners = testListeners();
    const limits = { ...USUAL_LIMITS, maxConnectionsPerAddress: 2 };
    const listener = await listeners.bind('0.0.0.0:0', limits);
    t.teardown(() => listener.close(AbortSignal.abort()));
    listener.route(held);
    await listener.open();
    const port = Number(new URL(urlOf(listener)).port);
    const from = { port, localAddress: '127.0.0.1' };
    const busy = connect({ ...from, host: '127.0.0.1' });
    await once(busy, 'connect');
    const idle = connect({ ...from, host: '127.0.0.2', localPort: Number(busy.localPort) });
    await once(idle, 'connect');
    busy.write(`GET /held HTTP/1.1\r\n${HOST}\r\n`);
    await reached.promise;
    const next = connect({ ...from, host: '127.0.0.1' });
    await once(idle, 'close');
    t.notOk(busy.closed || busy.destroyed, 'the next one replaces the idle one');
    for (const socket of [busy, next]) socket.destroy();
  },
);

t.test('closes a new connection if all others are busy', async (t) => {
  let busy = 0;
  const held = echo('/held', {
    handler: async ({ request }) => {
      busy++;
      await once(request, 'close');
    },
  });
  const { url } = await opened(t, [held], { maxConnections: 2 });
  const wires = [await dial(url), await dial(url)];
  for (const wire of wires) wire.send(`GET /held HTTP/1.1\r\n${HOST}\r\n`);
  await until(() => busy >= 2);
  await (await dial(url)).ended();
  t.notOk(wires.some(({ socket }) => socket.destroyed));
  for (const wire of wires) wire.close();
});

t.test(
  'a client gets the place of an unfinished request that was answered',
  { skip: ONE_LOOPBACK },
  async (t) => {
    const { url } = await opened(t, [hello], { maxConnections: 2 });
    const wires = [await dial(url), await dial(url)];
    for (const wire of wires) {
      wire.send(`POST /unknown HTTP/1.1\r\n${HOST}Content-Length: 1000000\r\n\r\n`);
      t.equal((await wire.answer()).status, 404);
    }
    const other = await dial(url, '127.0.0.2');
    other.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
    t.equal((await other.answer()).status, 200);
    for (const wire of [...wires, other]) wire.close();
  },
);

t.test('a trusted proxy has no bound of its own', async (t) => {
  const trustedProxies = ['127.0.0.0/8'];
  const { url } = await opened(t, [hello], { maxConnectionsPerAddress: 1, trustedProxies });
  const wires = [await dial(url), await dial(url)];
  for (const wire of wires) {
    wire.send(`GET /hello/x HTTP/1.1\r\n${HOST}\r\n`);
    t.equal((await wire.answer()).status, 200);
    wire.close();
  }
});

t.test('answers a client that ended its side behind its request', async (t) => {
  const { promise: gate, resolve: answerAll } = Promise.withResolvers<void>();
  let abandoned = 0;
  const later = async (exchange: Exchange): Promise<void> => {
    exchange.request.resume();
    exchange.response.once('close', () => {
      if (!exchange.response.writableFinished) abandoned++;
    });
    await gate;
    reply(exchange);
  };
  const { url } = await opened(t, [
    echo('/sent', { method: 'POST', handler: later }),
    echo('/read', { handler: later, oneAtATime: true }),
  ]);
  const sender = await dial(url);
  sender.send(`POST /sent HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\nab`);
  sender.socket.end();
  const reader = await dial(url);
  reader.send(`GET /read HTTP/1.1\r\n${HOST}\r\n`);
  reader.socket.end();
  // Such a client is rather gone, and its read would cost others.
  await reader.ended();
  t.equal(abandoned, 1, 'the read ended, the request with data did not');
  answerAll();
  const answered = await sender.answer();
  t.equal(answered.status, 200);
  t.equal(answered.headers.connection, 'close');
  await sender.ended();
});
