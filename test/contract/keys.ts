import type { Test } from 'tap';
import { hashToken, hasValidChecksum } from '../../src/tenancy/token.ts';
import type { OpenStore } from './place.ts';

/** The rules for projects and their keys. */
export function projectsAndKeys(t: Test, open: OpenStore): void {
  t.test('creates, finds and lists projects', async (t) => {
    const { store, clock, reopen } = await open(t);
    const before = await store.projects.list();
    const project = await store.projects.create('Zürich');
    t.match(project, { id: /^proj_\w+$/, name: 'Zürich', createdAt: clock.now() });
    const after = await reopen();
    t.same(await after.projects.get(project.id), project);
    t.same(await after.projects.list(), [...before, project]);
    t.equal(await after.projects.get('proj_none'), undefined);
    t.equal(await after.projects.organizationOf(project.id), project.organizationId);
    t.equal(await after.projects.organizationOf('proj_none'), undefined);
  });

  t.test('accepts names of 1 to 200 characters', async (t) => {
    const { store } = await open.shared();
    for (const name of ['', '   ', 'x'.repeat(201), 'lone \ud800']) {
      await t.rejects(store.projects.create(name), { name: 'StoreError', code: 'invalid_name' });
    }
    await store.projects.create('😀'.repeat(200));
  });

  t.test('returns a token once and finds its key by the hash', async (t) => {
    const { store, clock, reopen } = await open(t);
    const project = await store.projects.create('p');
    const changes: (string | undefined)[] = [];
    store.keys.onChange((keyId) => changes.push(keyId));
    const { key, token } = await store.keys.create({ projectId: project.id, name: 'ci' });
    t.match(key, {
      id: /^key_\w+$/,
      projectId: project.id,
      organizationId: project.organizationId,
      name: 'ci',
      permissions: ['ingest:write', 'traces:read'],
      createdAt: clock.now(),
      lastUsedAt: null,
      revokedAt: null,
    });
    t.ok(hasValidChecksum(token));
    t.ok(token.startsWith(key.prefix) && key.prefix.length < 16, 'the prefix tells little');
    t.same(changes, [key.id]);
    const after = await reopen();
    t.same(await after.keys.findByHash(hashToken(token)), key);
    t.equal(await after.keys.findByHash(hashToken(`${token}x`)), undefined);
    const hashes = Buffer.from(await after.keys.activeHashes());
    t.ok(hashes.includes(hashToken(token)));
    const [known, unknown] = [hashToken(token), hashToken(`${token}x`)];
    t.strictSame(Buffer.from(await after.keys.activeHashes([unknown, known])), known);
    t.equal((await after.keys.activeHashes([unknown])).length, 0);
    t.equal((await after.keys.activeHashes([])).length, 0);
    for (let i = 0; i < 5; i++) await after.keys.create({ projectId: project.id });
    const all = Buffer.from(await after.keys.activeHashes());
    t.equal(all.length, hashes.length + 5 * 32);
    for (let at = 32; at < all.length; at += 32) {
      t.equal(all.compare(all, at - 32, at, at, at + 32), 1, 'sorted');
    }
    t.equal((await after.keys.list(project.id)).length, 6);
  });

  t.test('stores the permissions of a key, at least one', async (t) => {
    const { store } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key } = await store.keys.create({ projectId, permissions: ['traces:read'] });
    t.same(key.permissions, ['traces:read']);
    const none = store.keys.create({ projectId, permissions: [] });
    await t.rejects(none, { name: 'StoreError', code: 'invalid_permissions' });
    const unknown = store.keys.create({ projectId: 'proj_none' });
    await t.rejects(unknown, { name: 'StoreError', code: 'unknown_project' });
  });

  t.test('keeps a revoked key in the list, and revokes idempotently', async (t) => {
    const { store, clock, reopen } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key, token } = await store.keys.create({ projectId });
    const changes: (string | undefined)[] = [];
    const stop = store.keys.onChange((keyId) => changes.push(keyId));
    const revokedAt = clock.now();
    const revoked = await store.keys.revoke(key.id);
    t.same(revoked, { ...key, revokedAt });
    t.same(changes, [key.id]);
    clock.advance(1000);
    t.same(await store.keys.revoke(key.id), revoked);
    stop();
    await t.rejects(store.keys.revoke('key_none'), { name: 'StoreError', code: 'unknown_key' });
    const after = await reopen();
    t.same(await after.keys.findByHash(hashToken(token)), revoked);
    t.notOk(Buffer.from(await after.keys.activeHashes()).includes(hashToken(token)));
    t.equal((await after.keys.activeHashes([hashToken(token)])).length, 0);
    t.same(await after.keys.list(projectId), [revoked]);
  });

  t.test('lists keys newest first, of one project or all', async (t) => {
    const { store, clock } = await open(t);
    const made: string[] = [];
    for (const name of ['one', 'two']) {
      const { id: projectId } = await store.projects.create(name);
      for (let i = 0; i < 2; i++) {
        clock.advance(10);
        made.unshift((await store.keys.create({ projectId, name })).key.id);
      }
    }
    const all = await store.keys.list();
    t.same(
      all.map(({ id }) => id).filter((id) => made.includes(id)),
      made,
    );
    const [first] = all;
    t.equal((await store.keys.list(first?.projectId)).length, 2);
  });

  t.test('stores the last use within ten seconds, then at most once a minute', async (t) => {
    const { store, clock, reopen } = await open(t);
    const { id: projectId } = await store.projects.create('p');
    const { key } = await store.keys.create({ projectId });
    const lastUse = async () => (await store.keys.list(projectId))[0]?.lastUsedAt;
    const used = clock.now();
    store.keys.touch(key.id, used);
    clock.advance(10_000);
    while ((await lastUse()) === null) await new Promise(setImmediate);
    t.equal(await lastUse(), used);
    store.keys.touch(key.id, used + 11_000);
    clock.advance(10_000);
    await store.projects.create('something else is written');
    t.equal(await lastUse(), used, 'within the minute it is not written again');
    const [after] = await (await reopen('close')).keys.list(projectId);
    t.equal(after?.lastUsedAt, used + 11_000, 'a stop writes what was noted');
  });

  t.test('listings contain neither a token nor its hash', async (t) => {
    const { store } = await open.shared();
    const { id: projectId } = await store.projects.create('p');
    const { token } = await store.keys.create({ projectId });
    const shown = JSON.stringify([await store.keys.list(), await store.projects.list()]);
    t.notMatch(shown, token.slice(12));
    t.notMatch(shown, hashToken(token).toString('hex'));
  });
}
