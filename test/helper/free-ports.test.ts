import { createServer } from 'node:net';
import t from 'tap';
import { freePort, freePorts } from './free-ports.ts';

/** The first port of outgoing connections on Linux. */
const FIRST_OUTGOING = 32_768;

t.test('gives each port once, below those of outgoing connections', async (t) => {
  const ports = [...(await freePorts(150)), await freePort(), await freePort()];
  t.equal(new Set(ports).size, ports.length);
  t.same(
    ports.filter((port) => port >= FIRST_OUTGOING),
    [],
  );
});

t.test('gives no port that a server has', async (t) => {
  const [taken = 0] = await freePorts(1);
  const server = createServer();
  // The next one is the one below.
  await new Promise<void>((resolve) => server.listen(taken - 1, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  t.not(await freePort(), taken - 1);
});
