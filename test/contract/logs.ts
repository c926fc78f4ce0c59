import type { Test } from 'tap';
import type { AuditFilter } from '../../src/tenancy/contract.ts';
import type { OpenTenancy } from './tenancy-place.ts';
import { DAY, only } from './tenancy-place.ts';

/** The rules for the log of rejections and for the audit log. */
export function logs(t: Test, open: OpenTenancy): void {
  t.test('lists rejections newest first, in pages', async (t) => {
    const { store, clock } = await open(t);
    const { id: projectId } = await only(store);
    const entry = (i: number) => ({
      ...{ at: clock.now() + i, projectId, keyId: 'key_1', path: '/api/v1/runs' },
      ...{ code: 'invalid_field' as const, reason: `r${i}`, itemId: `i${i}`, count: 1 },
      client: i === 2 ? null : `sdk "${i}" \\ \u0000 ü`,
    });
    for (let i = 0; i < 5; i++) store.rejections.record(entry(i));
    store.rejections.record({ ...entry(9), projectId: 'proj_other' });
    await store.usage.history({ from: 0, to: 1, by: 'day' });
    const first = await store.rejections.list(projectId, { limit: 3 });
    t.same(first.items, [entry(4), entry(3), entry(2)]);
    const cursor = first.nextCursor ?? '';
    t.same(await store.rejections.list(projectId, { limit: 3, cursor }), {
      items: [entry(1), entry(0)],
      nextCursor: null,
    });
    await t.rejects(store.rejections.list(projectId, { limit: 1, cursor: '!' }), {
      code: 'invalid_cursor',
    });
    clock.set(clock.now() + 31 * DAY);
    t.same((await store.rejections.list(projectId, { limit: 3 })).items, []);
  });

  t.test('lists the audit log newest first', async (t) => {
    const { store, clock, reopen } = await open(t);
    const entry = (i: number) => ({
      ...{ at: clock.now(), actor: 'cli', address: null, action: 'project.create' },
      ...{ subject: `proj_${i}`, details: { name: 'x', count: i, ok: true, none: null } },
    });
    for (let i = 0; i < 3; i++) await store.audit.record(entry(i));
    const after = await reopen();
    const first = await after.audit.list({ limit: 2 });
    t.same(first.items, [entry(2), entry(1)]);
    const rest = await after.audit.list({ limit: 2, cursor: first.nextCursor ?? '' });
    t.same(rest, { items: [entry(0)], nextCursor: null });
  });

  t.test(
    'the audit log is filtered by action, actor, project and time, also in pages',
    async (t) => {
      const { store, clock } = await open(t);
      const at = clock.now();
      const entry = (i: number, more: object) => ({
        ...{ at: at + i, actor: 'cli', address: null, action: 'project.update', subject: 'proj_a' },
        ...{ details: {}, ...more },
      });
      const inKey = { subject: 'key_1', action: 'key.create', details: { project_id: 'proj_a' } };
      const entries = [
        entry(0, {}),
        entry(1, { actor: 'admin-token' }),
        entry(2, inKey),
        entry(3, { subject: 'proj_b', details: { name: '"project_id":"proj_a"' } }),
        entry(4, { subject: 'er_1', details: { project: 'proj_a' } }),
        entry(5, { subject: 'proj_ab', details: { project_id: 'proj_ab' } }),
        entry(6, { ...inKey, details: { project_id: 'proj_a', name: 'say "x" \\ \u0000 \ud800' } }),
      ];
      for (const each of entries) await store.audit.record(each);
      const found = async (filter: AuditFilter) => {
        const { items } = await store.audit.list({ limit: 10, ...filter });
        return items.map((item) => item.at - at);
      };
      t.same(await found({ projectId: 'proj_a' }), [6, 4, 2, 1, 0]);
      t.same(await found({ action: 'key.create' }), [6, 2]);
      t.same(await found({ action: 'key' }), [], 'the whole action');
      t.same(await found({ actor: 'admin-token' }), [1]);
      t.same(await found({ actor: 'cli', projectId: 'proj_a' }), [6, 4, 2, 0]);
      t.same(await found({ from: at + 1, to: at + 3 }), [2, 1]);
      t.same(await found({ projectId: 'proj_\u0000' }), []);
      const first = await store.audit.list({ limit: 1, actor: 'cli', to: at + 3 });
      const cursor = first.nextCursor ?? '';
      const rest = await store.audit.list({ limit: 1, actor: 'cli', to: at + 3, cursor });
      t.same([first.items, rest.items], [[entries[2]], [entries[0]]]);
      t.equal(rest.nextCursor, null);
    },
  );

  t.test('commits a change and its audit entry together', async (t) => {
    const { store, clock, reopen } = await open(t);
    const by = { actor: 'admin-token', address: '192.0.2.1' };
    const organization = await store.organization.update({ name: 'Ours', plan: 'pro' }, by);
    const { id } = await store.projects.create('a', by);
    await store.projects.update(id, { name: 'b', retentionDays: 3 }, by);
    await store.projects.update(id, { name: 'b', retentionDays: null }, by);
    const { key } = await store.keys.create({ projectId: id, name: 'k' }, by);
    await store.keys.revoke(key.id, by);
    await store.projects.delete(id, by);
    const after = await reopen();
    const entry = (action: string, subject: string, details: object) => ({
      ...{ at: clock.now(), ...by, action, subject, details },
    });
    const ofKey = { project_id: id, name: 'k' };
    const expected = [
      entry('organization.update', organization.id, { name: 'Ours', plan: 'pro' }),
      entry('project.create', id, { name: 'a' }),
      entry('project.update', id, { name: 'b', retention_days: 3 }),
      entry('project.update', id, { retention_days: null }),
      entry('key.create', key.id, { ...ofKey, permissions: 'ingest:write,traces:read' }),
      entry('key.revoke', key.id, ofKey),
      entry('project.delete', id, { name: 'b' }),
    ];
    t.same((await after.audit.list({ limit: 100 })).items, expected.toReversed());

    const [last] = await after.projects.list();
    const lastId = last?.id ?? '';
    const kept = await after.keys.create({ projectId: lastId });
    await after.keys.revoke(kept.key.id);
    await after.keys.revoke(kept.key.id, by);
    await after.organization.update({ name: 'Ours', plan: 'pro' }, by);
    const { eventsPerMonth, bytesPerHour } = last?.limits ?? {};
    const limits = { eventsPerMonth: eventsPerMonth ?? null, bytesPerHour: bytesPerHour ?? null };
    const same = { name: last?.name ?? '', retentionDays: null, limits };
    t.match(await after.projects.update(lastId, same, by), { id: lastId, name: same.name });
    const nothing: (() => Promise<unknown>)[] = [
      () => after.projects.delete(lastId, by),
      () => after.projects.delete('proj_none', by),
      () => after.projects.create('', by),
      () => after.projects.update('proj_none', { name: 'x' }, by),
      () => after.keys.create({ projectId: 'proj_none' }, by),
      () => after.keys.revoke('key_none', by),
      () => after.organization.update({ name: '' }, by),
    ];
    for (const refused of nothing) await t.rejects(refused(), { name: 'StoreError' });
    const { items } = await after.audit.list({ limit: 100 });
    t.equal(items.length, expected.length, 'what changed nothing leaves no entry');
  });
}
