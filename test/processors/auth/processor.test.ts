import { hash } from 'node:crypto';
import type { Test } from 'tap';
import t from 'tap';
import { config as authConfig } from '../../../processors/auth/config.ts';
import { createProcessor as createAuthProcessor } from '../../../processors/auth/processor.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import type { Processor } from '../../../src/component/component.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { takeDropped } from '../../../src/model/verbs.ts';
import { BLOCKED, blockHash, ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { ApiKey, KeyStore } from '../../../src/tenancy/contract.ts';
import { makeToken } from '../../../src/tenancy/token.ts';
import { nativeBatch, nativeEvent, received } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { aHead } from '../../helper/sink.ts';

const TOKEN = makeToken();

function aKey(more: Partial<ApiKey> = {}): ApiKey {
  return {
    id: 'key_a',
    projectId: 'proj_a',
    organizationId: 'org_a',
    name: 'a',
    prefix: TOKEN.slice(0, 11),
    permissions: ['ingest:write'],
    createdAt: 0,
    lastUsedAt: null,
    revokedAt: null,
    ...more,
  };
}

/** A key store that holds what a test puts into it, and counts the questions it is asked. */
function memoryKeys(): {
  keys: KeyStore;
  set(token: string, key: ApiKey | undefined): void;
  changed(keyId: string): void;
  lookups(): number;
  /** The number of hashes in each search for unknown ones. */
  searches: number[];
  hashReads(): number;
  /** Makes the store list the hashes of the tokens, after the wait. */
  list(tokens: string[], wait?: () => Promise<void>): void;
  touched: string[];
  before(wait: () => Promise<void>): void;
} {
  const held = new Map<string, ApiKey>();
  const listeners = new Set<(keyId: string) => void>();
  const touched: string[] = [];
  let lookups = 0;
  const searches: number[] = [];
  let hashReads = 0;
  /** The active tokens; undefined: the store cannot list hashes, and each key is searched. */
  let active: (() => string[]) | undefined;
  let waitForHashes = async (): Promise<void> => {};
  let wait = async (): Promise<void> => {};
  const unused = (): never => {
    throw new Error('not used here');
  };
  return {
    touched,
    lookups: () => lookups,
    searches,
    hashReads: () => hashReads,
    list(tokens, wait = async () => {}) {
      active = () => tokens;
      waitForHashes = wait;
    },
    before(next) {
      wait = next;
    },
    set(token, key) {
      const digest = hash('sha256', token, 'base64');
      if (key === undefined) held.delete(digest);
      else held.set(digest, key);
    },
    changed(keyId) {
      for (const listener of listeners) listener(keyId);
    },
    keys: {
      create: unused,
      list: unused,
      revoke: unused,
      async activeHashes(among) {
        if (among !== undefined) {
          searches.push(among.length);
          await wait();
          const digests = among.map((digest) => Buffer.from(digest));
          return Buffer.concat(
            digests.filter((one) => held.get(one.toString('base64'))?.revokedAt === null),
          );
        }
        hashReads++;
        if (active === undefined) throw new RetryableError('storage_failed', 'no hashes');
        const found = active();
        await waitForHashes();
        return Buffer.concat(
          found.map((token) => hash('sha256', token, 'buffer')).sort(Buffer.compare),
        );
      },
      async findByHash(digest) {
        lookups++;
        const found = held.get(digest.toString('base64'));
        await wait();
        return found;
      },
      touch: (keyId) => void touched.push(keyId),
      onChange(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
  };
}

function headWith(headers: Record<string, string | readonly string[]>) {
  const entries = Object.entries(headers).map(
    ([name, value]) => [name, typeof value === 'string' ? [value] : value] as const,
  );
  return aHead({ headers: new Map(entries) });
}

async function storeAuth(t: Test, ttl = '5s') {
  const memory = memoryKeys();
  const clock = fakeClock();
  const blocks = new ErasureBlocks(() => clock.now());
  const store = { keys: memory.keys, erasures: { blocks } };
  const host = fakeHost({ extensions: { sqlite: [offer(STORE, store as unknown as Store)] } });
  const settings = testSettings('processor', 'auth', { clock, host });
  const processor = createAuthProcessor(
    settings,
    authConfig.parse({ store: 'sqlite', cache_ttl: ttl }),
  );
  await processor.start();
  t.teardown(() => processor.shutdown(NO_DEADLINE));
  const ask = async (headers: Record<string, string | readonly string[]>) =>
    processor.authenticate?.(headWith(headers));
  /** Makes the processor read the hashes of the given tokens, so that it knows them without a search. */
  const know = async (tokens: string[]) => {
    memory.list(tokens);
    memory.changed('key_any');
    await settled();
  };
  return { ...memory, blocks, clock, processor, ask, know, settings };
}

/** Resolves when the background work that needs no time is done. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

const BEARER = { authorization: `Bearer ${TOKEN}` };

t.test('names the project of a key in either header', async (t) => {
  const { ask, set, touched, processor } = await storeAuth(t);
  set(TOKEN, aKey());
  const tenant = {
    organizationId: 'org_a',
    projectId: 'proj_a',
    keyId: 'key_a',
    permissions: ['ingest:write'],
  };
  t.strictSame(await ask(BEARER), tenant);
  t.strictSame(await ask({ 'x-api-key': TOKEN }), tenant);
  t.strictSame(await ask({ authorization: `bearer   ${TOKEN} ` }), tenant);
  t.strictSame(await ask({ ...BEARER, 'x-api-key': TOKEN }), tenant);
  t.strictSame(touched, ['key_a', 'key_a', 'key_a', 'key_a']);
  t.ok(findOffer(processor.offers ?? [], STORE), 'receivers of the pipeline find the store');
});

t.test('answers every request without exactly one active key with the same 401', async (t) => {
  const { ask, set, lookups, searches, know } = await storeAuth(t);
  const other = makeToken();
  const revoked = makeToken();
  await know([revoked]);
  set(TOKEN, aKey());
  set(other, aKey({ id: 'key_b' }));
  set(revoked, aKey({ id: 'key_r', revokedAt: 1 }));
  const unknown = {
    code: 'unauthorized',
    status: 401,
    message: 'The API key is missing or invalid.',
  };
  for (const headers of [
    { authorization: `Bearer ${revoked}` },
    { authorization: `Bearer ${makeToken()}` },
  ]) {
    await t.rejects(ask(headers), unknown, JSON.stringify(headers));
  }
  const asked = lookups() + searches.length;
  const flipped = TOKEN.slice(0, -1) + (TOKEN.endsWith('0') ? '1' : '0');
  for (const headers of [
    {},
    { authorization: 'Bearer ' },
    { authorization: TOKEN },
    { authorization: `Bearer "${TOKEN}"` },
    { authorization: `Bearer ${TOKEN} ${TOKEN}` },
    { authorization: `Basic ${TOKEN}` },
    { authorization: `Bearer sk_${TOKEN}` },
    { authorization: `Bearer ${flipped}` },
    { authorization: `Bearer ${TOKEN.toUpperCase()}` },
    { authorization: "Bearer ws_' OR '1'='1" },
    { authorization: `Bearer ws_${'A'.repeat(15_000)}` },
    { authorization: `Bearer ${hash('sha256', TOKEN)}` },
    { authorization: 'Bearer ws_\u00e9\u00e9' },
    { authorization: [`Bearer ${TOKEN}`, `Bearer ${TOKEN}`] },
    { 'x-api-key': [TOKEN, TOKEN] },
    { 'x-api-key': '' },
    { ...BEARER, 'x-api-key': other },
    { ...BEARER, 'x-api-key': '' },
    { authorization: 'Basic abc', 'x-api-key': TOKEN },
  ]) {
    await t.rejects(ask(headers), unknown, JSON.stringify(headers).slice(0, 100));
  }
  t.equal(lookups() + searches.length, asked, 'none of them was looked up');
});

t.test('takes the password of HTTP Basic as the key, whatever the user name', async (t) => {
  const { ask, set } = await storeAuth(t);
  set(TOKEN, aKey());
  const basic = (user: string, password = TOKEN) =>
    `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  for (const user of ['', 'pk-lf-1', 'proj_a', 'any \u00e9 text', 'a'.repeat(300)]) {
    t.match(await ask({ authorization: basic(user) }), { keyId: 'key_a' }, user.slice(0, 20));
  }
  t.match(await ask({ authorization: basic('a').replace('Basic', 'basic  ') }), {});
  t.match(await ask({ authorization: basic('a'), 'x-api-key': TOKEN }), { keyId: 'key_a' });
  for (const authorization of [
    basic('a', ''),
    basic(TOKEN, ''),
    basic('a', ` ${TOKEN}`),
    basic('a', `b:${TOKEN}`),
    `Basic ${Buffer.from(TOKEN).toString('base64')}`,
    `${basic('a')} x`,
    `Basic ${Buffer.from(`a:${TOKEN}`).toString('base64')}===`,
  ]) {
    const unknown = { code: 'unauthorized', message: 'The API key is missing or invalid.' };
    await t.rejects(ask({ authorization }), unknown, authorization);
  }
  await t.rejects(ask({ authorization: basic('a'), 'x-api-key': makeToken() }), {
    message: 'The API key is missing or invalid.',
  });
});

t.test('refuses the id of another project as the user name of HTTP Basic', async (t) => {
  const { ask, set, touched, know } = await storeAuth(t);
  const revoked = makeToken();
  await know([TOKEN, revoked]);
  set(TOKEN, aKey());
  const basic = (password: string) => Buffer.from(`proj_b:${password}`).toString('base64');
  await t.rejects(ask({ authorization: `Basic ${basic(TOKEN)}` }), {
    code: 'unauthorized',
    message: /id of another project/,
  });
  t.strictSame(touched, []);
  await t.rejects(
    ask({ authorization: `Basic ${basic(revoked)}` }),
    { message: 'The API key is missing or invalid.' },
    'a client without a valid key learns nothing',
  );
});

t.test('looks a known key up again only after its time', async (t) => {
  const { ask, set, lookups, clock, processor } = await storeAuth(t);
  set(TOKEN, aKey());
  await Promise.all([ask(BEARER), ask(BEARER)]);
  t.equal(lookups(), 1, 'two requests, one question');
  t.notOk(processor.authenticate?.(headWith(BEARER)) instanceof Promise, 'answered at once');
  clock.advance(4_999);
  await ask(BEARER);
  t.equal(lookups(), 1);
  clock.advance(1);
  await ask(BEARER);
  t.equal(lookups(), 2);
});

t.test(
  'refuses a key revoked here at once, and one revoked elsewhere within the time',
  async (t) => {
    const { ask, set, changed, clock, know } = await storeAuth(t);
    await know([TOKEN]);
    set(TOKEN, aKey());
    await ask(BEARER);
    set(TOKEN, aKey({ revokedAt: 1 }));
    await ask(BEARER);
    changed('key_a');
    await t.rejects(ask(BEARER), { code: 'unauthorized' });

    set(TOKEN, aKey());
    changed('key_a');
    await ask(BEARER);
    set(TOKEN, undefined);
    clock.advance(5_000);
    await t.rejects(ask(BEARER), { code: 'unauthorized' });
  },
);

t.test('does not cache a key as active that is revoked during its lookup', async (t) => {
  const { ask, set, changed, before, know } = await storeAuth(t);
  await know([TOKEN]);
  set(TOKEN, aKey());
  before(async () => {
    before(async () => {});
    set(TOKEN, aKey({ revokedAt: 1 }));
    changed('key_a');
  });
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
});

t.test('caches a key that was removed for a second, or until a key changes', async (t) => {
  const { ask, set, changed, lookups, clock, know } = await storeAuth(t);
  await know([TOKEN]);
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
  t.equal(lookups(), 1);
  clock.advance(1_000);
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
  t.equal(lookups(), 2);
  set(TOKEN, aKey());
  changed('key_a');
  t.match(await ask(BEARER), { keyId: 'key_a' });
});

t.test('does not answer 401 if the store is away', async (t) => {
  const { ask, before, set, know } = await storeAuth(t);
  await know([TOKEN]);
  set(TOKEN, aKey());
  before(() => Promise.reject(new RetryableError('storage_failed', 'away')));
  await t.rejects(ask(BEARER), { code: 'storage_failed' });
  before(async () => {});
  t.match(await ask(BEARER), { keyId: 'key_a' });
});

t.test('evicts the least recently used of 10,001 keys', async (t) => {
  const { ask, set, lookups, know } = await storeAuth(t, '1h');
  const others = Array.from({ length: 10_000 }, makeToken);
  set(TOKEN, aKey());
  for (const [i, token] of others.entries()) set(token, aKey({ id: `key_${i}` }));
  await know([TOKEN, ...others]);
  await ask(BEARER);
  for (const token of others) await ask({ 'x-api-key': token });
  t.equal(lookups(), 10_001);
  await ask(BEARER);
  t.equal(lookups(), 10_002);
});

t.test('searches 1,001 unknown keys in two queries, 50 ms apart', async (t) => {
  const { ask, set, know, lookups, searches, clock } = await storeAuth(t);
  const tokens = [TOKEN, ...Array.from({ length: 99 }, makeToken)];
  for (const [i, token] of tokens.entries()) set(token, aKey({ id: `key_${i}` }));
  await know(tokens);
  const first = t.rejects(ask({ 'x-api-key': makeToken() }), { code: 'unauthorized' });
  await first;
  t.same(searches, [1], 'the first one does not wait');
  const flood = Promise.all(
    Array.from({ length: 1_001 }, () =>
      t.rejects(ask({ 'x-api-key': makeToken() }), { code: 'unauthorized' }),
    ),
  );
  clock.advance(49);
  await settled();
  t.same(searches, [1]);
  for (const token of tokens) await ask({ 'x-api-key': token });
  t.equal(lookups(), 100, 'known keys do not wait for a search');
  clock.advance(1);
  await settled();
  t.same(searches, [1, 1_000]);
  clock.advance(49);
  await settled();
  t.same(searches, [1, 1_000]);
  clock.advance(1);
  await flood;
  t.same(searches, [1, 1_000, 1]);
  t.equal(lookups(), 100, 'no unknown key was looked up alone');
});

t.test('the first request finds a key of another process, also beside unknown keys', async (t) => {
  const { ask, set, know, lookups, searches, clock } = await storeAuth(t);
  await know([makeToken()]);
  await t.rejects(ask({ 'x-api-key': makeToken() }), { code: 'unauthorized' });
  const wrong = t.rejects(ask({ 'x-api-key': makeToken() }), { code: 'unauthorized' });
  // Created and answered elsewhere. No notice comes.
  set(TOKEN, aKey());
  const fresh = ask(BEARER);
  await settled();
  clock.advance(50);
  t.match(await fresh, { keyId: 'key_a' });
  await wrong;
  t.same(searches, [1, 2]);
  t.equal(lookups(), 1);
  t.match(await ask(BEARER), { keyId: 'key_a' });
  t.equal(lookups(), 1, 'it is cached');
});

t.test('a search that fails refuses no key', async (t) => {
  const { ask, set, before, clock } = await storeAuth(t);
  set(TOKEN, aKey());
  before(() => Promise.reject(new RetryableError('storage_failed', 'away')));
  await t.rejects(ask(BEARER), { code: 'storage_failed' });
  before(async () => {});
  clock.advance(50);
  t.match(await ask(BEARER), { keyId: 'key_a' });
});

t.test('a search that waits for its turn is answered when the processor ends', async (t) => {
  const { ask, processor } = await storeAuth(t);
  await t.rejects(ask(BEARER), { code: 'unauthorized' });
  const last = t.rejects(ask(BEARER), { code: 'unauthorized' });
  await processor.shutdown(NO_DEADLINE);
  await last;
});

t.test('reads the hashes again when a key changes during the read', async (t) => {
  const { ask, set, list, changed, hashReads, searches } = await storeAuth(t);
  await settled();
  const other = makeToken();
  const reading = Promise.withResolvers<void>();
  list([other], () => reading.promise);
  changed('key_b');
  await settled();
  set(TOKEN, aKey());
  const before = hashReads();
  list([other, TOKEN]);
  changed('key_a');
  reading.resolve();
  await settled();
  t.equal(hashReads(), before + 1, 'the answer from before the change is read again');
  t.match(await ask(BEARER), { keyId: 'key_a' });
  t.same(searches, [], 'the key is known');
});

t.test('reads the hashes every 30 s', async (t) => {
  const { list, know, hashReads, clock } = await storeAuth(t);
  await know([TOKEN]);
  const before = hashReads();
  list([TOKEN, makeToken()]);
  clock.advance(29_999);
  await settled();
  t.equal(hashReads(), before);
  clock.advance(1);
  await settled();
  t.equal(hashReads(), before + 1);
});

t.test('reads the hashes again a second after a failure, and says so once', async (t) => {
  const { set, list, ask, hashReads, clock, searches, settings } = await storeAuth(t);
  await settled();
  t.equal(hashReads(), 1);
  clock.advance(1_000);
  await settled();
  t.equal(hashReads(), 2);
  set(TOKEN, aKey());
  list([TOKEN]);
  clock.advance(999);
  await settled();
  t.equal(hashReads(), 2);
  clock.advance(1);
  await settled();
  t.match(await ask(BEARER), { keyId: 'key_a' });
  t.same(searches, [], 'the key is known');
  t.match(settings.logger.lines, [{ level: 'warn', message: /Hashes of keys/ }]);
});

t.test('names the projects of fixed keys of any form without a store', async (t) => {
  const config = authConfig.parse({
    keys: [
      { token: 'short', project: 'proj_one', permissions: ['ingest:write'] },
      { token: 'pass:word', project: 'proj_two' },
    ],
  });
  const processor: Processor = createAuthProcessor(testSettings('processor', 'auth'), config);
  await processor.start();
  t.match(processor.authenticate?.(headWith({ authorization: 'Bearer short' })), {
    projectId: 'proj_one',
    permissions: ['ingest:write'],
  });
  t.match(processor.authenticate?.(headWith({ 'x-api-key': 'pass:word' })), {
    projectId: 'proj_two',
    permissions: ['ingest:write', 'traces:read'],
  });
  for (const token of ['shor', 'shorter', 'SHORT', '']) {
    t.throws(() => processor.authenticate?.(headWith({ 'x-api-key': token })), {
      code: 'unauthorized',
    });
  }
  t.equal(processor.offers, undefined);
  await processor.shutdown(NO_DEADLINE);
});

t.test('requires either a store or keys in the configuration', async (t) => {
  const key = { token: 'a', project: 'p' };
  t.notOk(authConfig.safeParse({}).success);
  t.notOk(authConfig.safeParse({ store: 'sqlite', keys: [key] }).success);
  t.notOk(authConfig.safeParse({ keys: [] }).success);
  t.notOk(authConfig.safeParse({ keys: [key, { ...key, project: 'q' }] }).success);
  t.notOk(authConfig.safeParse({ keys: [{ ...key, permissions: ['all'] }] }).success);
  t.ok(authConfig.safeParse({ keys: [key] }).success);
});

t.test('drops blocked items, and has no work without blocks', async (t) => {
  const { processor, blocks, clock } = await storeAuth(t);
  t.equal(processor.process, undefined);
  const row = { project: 'proj_test', hash: blockHash('id', 'a'), until: clock.now() + 1 };
  await blocks.renew(async () => [row]);
  const batch = received(nativeBatch([nativeEvent({ trace_id: 'a' }), nativeEvent()]));
  await processor.process?.(batch, requestContext());
  t.equal(batch.items, 1);
  t.same([...(takeDropped(batch) ?? [])], [[BLOCKED, 1]]);
  await blocks.renew(async () => []);
  t.equal(processor.process, undefined);
});
