import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { boundConnections, MAX_UNANSWERED } from '../../../src/net/bounded-connections.ts';
import { ProxyGate } from '../../../src/net/proxy-gate.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';
import { dial } from '../../helper/wire.ts';

async function serving(t: Test, max: number, maxPerAddress: number) {
  let held = 0;
  let begun = 0;
  const server = createServer((request, response) => {
    begun++;
    // `/held` answers when its connection ends.
    if (request.url === '/held') held++;
    else response.end('ok');
  });
  const endpoint = '127.0.0.1:0';
  const proxies = new ProxyGate({ clock: systemClock, logger: recordingLogger(), endpoint });
  boundConnections(server, { max, maxPerAddress }, proxies, systemClock);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, server, held: () => held, begun: () => begun };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: t\r\n\r\n`;

for (const [max, maxPerAddress] of [
  [8, 2],
  [2, 8],
] as const) {
  t.test(
    `at ${max} in all and ${maxPerAddress} of an address, drops the oldest idle one`,
    async (t) => {
      const { url } = await serving(t, max, maxPerAddress);
      const first = await dial(url);
      const second = await dial(url);
      second.send(get('/'));
      t.equal((await second.answer()).status, 200, 'both have a place');
      const third = await dial(url);
      await first.ended();
      third.send(get('/'));
      t.equal((await third.answer()).status, 200);
      second.send(get('/'));
      t.equal((await second.answer()).status, 200, 'the newer one stayed open');
      second.close();
      third.close();
    },
  );
}

t.test('closes a new connection if all others wait for an answer', async (t) => {
  const { url, held } = await serving(t, 8, 2);
  const busy = [await dial(url), await dial(url)];
  for (const wire of busy) wire.send(get('/held'));
  await until(() => held() === 2);
  await (await dial(url)).ended();
  t.notOk(
    busy.some(({ socket }) => socket.destroyed),
    'the busy ones stay open',
  );
  for (const wire of busy) wire.close();
  await until(async () => {
    const wire = await dial(url);
    wire.send(get('/'));
    const status = await wire.answer().then(
      (answer) => answer.status,
      () => 0,
    );
    wire.close();
    return status === 200;
  });
});

t.test('drops a connection that never sent a request before an older one that did', async (t) => {
  const { url } = await serving(t, 8, 2);
  const used = await dial(url);
  used.send(get('/'));
  await used.answer();
  const silent = await dial(url);
  const third = await dial(url);
  await silent.ended();
  used.send(get('/'));
  t.equal((await used.answer()).status, 200);
  used.close();
  third.close();
});

t.test('answers pipelined requests up to the bound, and cuts a client beyond it', async (t) => {
  const { url, begun } = await serving(t, 8, 8);
  const within = await dial(url);
  within.send(get('/').repeat(MAX_UNANSWERED));
  for (let i = 0; i < MAX_UNANSWERED; i++) t.equal((await within.answer()).status, 200);
  within.send(get('/'));
  t.equal((await within.answer()).status, 200, 'answered requests do not count');
  within.close();
  const before = begun();
  const beyond = await dial(url);
  beyond.send(get('/').repeat(MAX_UNANSWERED + 1));
  await beyond.ended();
  t.ok(begun() - before <= 1, 'the requests that waited are not begun');
});

t.test('ends a connection whose next bytes could be misread', async (t) => {
  const { url } = await serving(t, 8, 8);
  for (const [header, status] of [
    ['Expect: something\r\nContent-Length: 5', 417],
    ['Connection: upgrade\r\nUpgrade: h2c', 200],
  ] as const) {
    const wire = await dial(url);
    wire.send(`GET / HTTP/1.1\r\nHost: t\r\n${header}\r\n\r\n`);
    const got = await wire.answer();
    t.equal(got.status, status);
    t.equal(got.headers.connection, 'close');
    await wire.ended();
  }
});

t.test('looks at no further request of a connection that was cut', async (t) => {
  const { url, server } = await serving(t, 8, 8);
  let parsed = 0;
  server.on('request', () => parsed++);
  const wire = await dial(url);
  wire.send(get('/').repeat(1_000));
  await wire.ended();
  t.equal(parsed, MAX_UNANSWERED + 1);
});

t.test('begins one request in each turn, and other work proceeds between them', async (t) => {
  const { url, begun } = await serving(t, 8, 8);
  const wires = await Promise.all([dial(url), dial(url), dial(url)]);
  let most = 0;
  let before = 0;
  let isOver = false;
  const watch = (): void => {
    most = Math.max(most, begun() - before);
    before = begun();
    if (!isOver) setImmediate(watch);
  };
  watch();
  for (const wire of wires) wire.send(get('/').repeat(MAX_UNANSWERED));
  for (const wire of wires) {
    for (let i = 0; i < MAX_UNANSWERED; i++) t.equal((await wire.answer()).status, 200);
  }
  isOver = true;
  t.ok(most <= 2, `${most} began between two turns`);
  for (const wire of wires) wire.close();
});
