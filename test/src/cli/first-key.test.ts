import { chmodSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { loadOrFail } from '../../../src/cli/configuration.ts';
import { controlDirectoryOf } from '../../../src/cli/daemon.ts';
import { firstTokens } from '../../../src/cli/first-key.ts';
import { makeToken } from '../../../src/tenancy/token.ts';

const CONFIG = join(import.meta.dirname, '../../../config/gateway.yaml');

const URLS = { DATABASE_URL: 'postgres://127.0.0.1:1/none', REDIS_URL: 'redis://127.0.0.1:1' };

/** The tokens of a daemon without a data directory, which has its control directory in the temporary one. */
async function inTemporaryDirectory(t: Test) {
  const former = process.env.TMPDIR ?? '/tmp';
  process.env.TMPDIR = t.testdir({});
  t.teardown(() => {
    process.env.TMPDIR = former;
  });
  const terminal = { cwd: '/', env: URLS, out() {}, err() {} };
  const options = { config: [CONFIG], set: [] };
  const config = await loadOrFail(options, terminal);
  const directory = controlDirectoryOf(config, options, terminal);
  return { tokens: firstTokens({ config, options, terminal }), directory };
}

t.test('keeps tokens until they are forgotten', async (t) => {
  const { tokens, directory } = await inTemporaryDirectory(t);
  const [one, two] = [makeToken(), makeToken()];
  await tokens.keep(one);
  await tokens.keep(two);
  t.same(new Set(await tokens.kept()), new Set([one, two]));
  await tokens.forget(one);
  await tokens.forget(one);
  t.same(await tokens.kept(), [two]);
  t.equal(readdirSync(directory).length, 1);
});

t.test('reads no token from a directory that another user could change', async (t) => {
  const { tokens, directory } = await inTemporaryDirectory(t);
  const token = makeToken();
  await tokens.keep(token);
  chmodSync(dirname(directory), 0o777);
  t.same(await tokens.kept(), []);
  await tokens.forget(token);
  t.equal(readdirSync(directory).length, 1);
});

t.test('no failure of its directory prevents a start', async (t) => {
  const { tokens, directory } = await inTemporaryDirectory(t);
  rmSync(dirname(directory), { recursive: true, force: true });
  writeFileSync(dirname(directory), 'a file of another program');
  const token = makeToken();
  await tokens.keep(token);
  t.same(await tokens.kept(), []);
  await tokens.forget(token);
});
