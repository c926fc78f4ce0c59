import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { config as adminConfig } from '../../../extensions/admin/config.ts';
import { defineExtension } from '../../../src/component/factory.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { allFactories } from '../../../src/registry.ts';
import { STORE } from '../../../src/store/store.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { serving } from './serving.ts';

const FACTORIES = await allFactories();

t.test('creates a token with mode 0600 at the first start', async (t) => {
  const directory = join(t.testdir(), 'data');
  const first = await serving(t, { config: { token: '' }, directory });
  const file = join(directory, 'admin-token');
  t.equal(statSync(file).mode & 0o777, 0o600);
  const token = readFileSync(file, 'utf8').trim();
  t.match(token, /^admin_[\w-]{43}$/);
  t.equal((await first.ask('GET', '/api/v1/projects', { token })).status, 200);
  t.notMatch(JSON.stringify(first.settings.logger.lines), token);
  await first.admin.shutdown(NO_DEADLINE);

  chmodSync(file, 0o640);
  const second = await serving(t, { config: { token: '' }, directory });
  t.equal(
    (await second.ask('GET', '/api/v1/projects', { token })).status,
    200,
    'a second start keeps the token',
  );
  t.equal(statSync(file).mode & 0o777, 0o600, 'a second start restores the mode');
});

t.test('does not follow a link in place of the token file', async (t) => {
  const directory = t.testdir({ elsewhere: 'somebody-elses' });
  symlinkSync(join(directory, 'elsewhere'), join(directory, 'admin-token'));
  await t.rejects(serving(t, { config: { token: '' }, directory }), /cannot read the admin token/);
  writeFileSync(join(directory, 'elsewhere'), '');
});

t.test('serves nothing, and logs it, without a token and a directory to keep one', async (t) => {
  const { url, settings } = await serving(t, { config: { token: '' } });
  t.equal(url, '');
  t.match(settings.logger.lines, [{ level: 'warn', message: /not served: no token/ }]);
});

t.test('validates the characters of the token, and refuses a project key', async (t) => {
  t.match(adminConfig.safeParse({ store: 's', token: 'ws_abc' }).error?.issues, [
    { path: ['token'], message: /project key/ },
  ]);
  t.match(adminConfig.safeParse({ store: 's', token: 'a b' }).error?.issues, [{ path: ['token'] }]);
});

t.test('validate warns that the API is not served without a token', async (t) => {
  const remote = defineExtension({
    kind: 'extension',
    type: 'remote',
    stability: 'development',
    description: 'A store without a data directory.',
    provides: [STORE],
    config: z.strictObject({}),
    create() {
      throw new Error('a configuration is checked without creating anything');
    },
  });
  const cwd = t.testdir({});
  const faults = (store: string, token: string) => {
    const admin = `{store: ${store}, token: "${token}"}`;
    const service = `{extensions: [${store}, admin], pipelines: {}}`;
    const text = `extensions: {${store}: {}, admin: ${admin}}\nservice: ${service}\n`;
    writeFileSync(join(cwd, 'a.yaml'), text);
    const registry = [...FACTORIES, remote];
    const { issues } = loadConfig({ files: ['a.yaml'], env: {}, cwd, registry });
    return issues.filter(({ path }) => path.startsWith('extensions.admin'));
  };
  t.match(faults('remote', ''), [
    {
      severity: 'warning',
      path: 'extensions.admin.token',
      message: /remote has no data directory/,
    },
  ]);
  t.same(faults('remote', 'a-token'), []);
  t.same(faults('sqlite', ''), []);
});

t.test('names what is in the place of the token and no file', async (t) => {
  const directory = t.testdir({ 'admin-token': {} });
  await t.rejects(serving(t, { config: { token: '' }, directory }), {
    message: /admin-token is not a regular file\. Remove it: the next start makes one\.$/,
  });
});
