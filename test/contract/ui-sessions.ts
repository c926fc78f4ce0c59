import { createHash } from 'node:crypto';
import type { Test } from 'tap';
import type { Store } from '../../src/store/store.ts';
import type { NewUiSession, UiSession } from '../../src/tenancy/ui-sessions.ts';
import type { FakeClock } from '../helper/clock.ts';

type Open = (t: Test) => Promise<{ clock: FakeClock; store: Store; reopen(): Promise<Store> }>;

const MINUTE = 60_000;
const LIMITS = { most: 100 };
const BINDING = hashed('admin token');

function hashed(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function aSession(name: string, at: number, more: Partial<NewUiSession> = {}): NewUiSession {
  return {
    ...{ id: `id-${name}`, hash: hashed(name), binding: BINDING, signedInWith: 'code' },
    ...{ createdAt: at, lastUsedAt: at, expiresAt: at + MINUTE },
    ...{ address: '192.0.2.1', userAgent: 'say "x" \\ \u0000 ü \u{1f600}' },
    ...more,
  };
}

function shown({ hash: _hash, binding: _binding, ...session }: NewUiSession): UiSession {
  return session;
}

const BY = { actor: 'ui-session:1', address: '192.0.2.1' };

/** The rules for sessions of the web UI and their one-time codes. */
export function uiSessions(t: Test, open: Open): void {
  t.test('a session is found by its hash until it expires, also after a crash', async (t) => {
    const { store, clock, reopen } = await open(t);
    const now = clock.now();
    const session = aSession('a', now);
    t.equal(await store.uiSessions.open(session, LIMITS, BY), true);
    t.strictSame(await store.uiSessions.find(session.hash, now), shown(session));
    t.equal(await store.uiSessions.find(hashed('b'), now), undefined);
    const { uiSessions } = await reopen();
    t.strictSame(await uiSessions.find(session.hash, now + MINUTE - 1), shown(session));
    t.equal(await uiSessions.find(session.hash, now + MINUTE), undefined);
    t.strictSame(await uiSessions.list(BINDING, now + MINUTE - 1), [shown(session)]);
    t.strictSame(await uiSessions.list(BINDING, now + MINUTE), []);
  });

  t.test('a use prolongs a session, and an earlier one does not shorten it', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    const session = aSession('a', now);
    await uiSessions.open(session, LIMITS, BY);
    await uiSessions.use(session.hash, now + 10, now + 10 + MINUTE);
    await uiSessions.use(session.hash, now + 5, now + 5 + MINUTE);
    const used = { ...shown(session), lastUsedAt: now + 10, expiresAt: now + 10 + MINUTE };
    t.strictSame(await uiSessions.find(session.hash, now + MINUTE), used);
  });

  t.test('a code opens one session, also when twenty sign-ins use it at once', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    const code = hashed('code');
    await uiSessions.addCode({ hash: code, expiresAt: now + MINUTE }, { ...LIMITS, now });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        uiSessions.open(aSession(String(i), now), { ...LIMITS, code }, BY),
      ),
    );
    t.equal(answers.filter(Boolean).length, 1);
    t.equal((await uiSessions.list(BINDING, now)).length, 1);
    t.equal(await uiSessions.open(aSession('late', now), { ...LIMITS, code }, BY), false);
  });

  t.test('a code is valid until the moment at which it expires', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    for (const [age, isValid] of [
      [MINUTE - 1, true],
      [MINUTE, false],
    ] as const) {
      const code = hashed(`code ${age}`);
      await uiSessions.addCode({ hash: code, expiresAt: now + MINUTE }, { ...LIMITS, now });
      const session = aSession(String(age), now + age);
      t.equal(await uiSessions.open(session, { ...LIMITS, code }, BY), isValid);
      t.equal((await uiSessions.find(session.hash, now + age)) !== undefined, isValid);
    }
  });

  t.test('a sign-in ends the session before it, but a refused one does not', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    const [old, next] = [aSession('old', now), aSession('next', now)];
    await uiSessions.open(old, LIMITS, BY);
    const refused = { ...LIMITS, code: hashed('no code'), replaces: old.hash };
    t.equal(await uiSessions.open(next, refused, BY), false);
    t.strictSame(await uiSessions.list(BINDING, now), [shown(old)]);
    t.equal(await uiSessions.open(next, { ...LIMITS, replaces: old.hash }, BY), true);
    t.strictSame(await uiSessions.list(BINDING, now), [shown(next)]);
  });

  t.test('lists and ends the sessions of one admin token, the one used last first', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    const other = hashed('former token');
    await uiSessions.open(aSession('a', now), LIMITS, BY);
    await uiSessions.open(aSession('b', now, { lastUsedAt: now + 1 }), LIMITS, BY);
    await uiSessions.open(aSession('former', now, { binding: other }), LIMITS, BY);
    const ids = async () => (await uiSessions.list(BINDING, now)).map(({ id }) => id);
    t.strictSame(await ids(), ['id-b', 'id-a']);
    const by = { ...BY, at: now };
    t.equal(await uiSessions.end('id-former', BINDING, by), false);
    t.equal(await uiSessions.end('id-b\u0000', BINDING, by), false);
    t.equal(await uiSessions.end('id-b', BINDING, by), true);
    t.equal(await uiSessions.end('id-b', BINDING, by), false);
    t.strictSame(await ids(), ['id-a']);
    t.equal(await uiSessions.find(hashed('b'), now), undefined);
  });

  t.test('keeps a bounded number of sessions and codes', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions } = store;
    const now = clock.now();
    for (let i = 0; i < 4; i++) {
      await uiSessions.open(aSession(String(i), now + i), { most: 3 }, BY);
      const code = { hash: hashed(`code ${i}`), expiresAt: now + MINUTE + i };
      await uiSessions.addCode(code, { most: 3, now });
    }
    const ids = (await uiSessions.list(BINDING, now)).map(({ id }) => id);
    t.strictSame(ids, ['id-3', 'id-2', 'id-1'], 'the one used longest ago has left');
    const asked = (i: number) =>
      uiSessions.open(aSession(`by ${i}`, now), { most: 9, code: hashed(`code ${i}`) }, BY);
    t.equal(await asked(0), false);
    t.equal(await asked(1), true);
  });

  t.test('the audit log names who signed in, signed out and made a code', async (t) => {
    const { store, clock } = await open(t);
    const { uiSessions, audit } = store;
    const now = clock.now();
    const session = aSession('a', now);
    const code = { hash: hashed('code'), expiresAt: now + MINUTE };
    await uiSessions.addCode(code, { ...LIMITS, now });
    await uiSessions.addCode({ ...code, hash: hashed('2') }, { ...LIMITS, now }, BY);
    await uiSessions.open(session, { ...LIMITS, code: hashed('none') }, BY);
    await uiSessions.open(session, { ...LIMITS, code: code.hash }, BY);
    await uiSessions.end(session.id, BINDING, { ...BY, at: now });
    const entry = (action: string, subject: string, details: object) => ({
      ...{ at: now, ...BY, action, subject, details },
    });
    t.strictSame((await audit.list({ limit: 10 })).items, [
      entry('ui_session.end', session.id, {}),
      entry('ui_session.create', session.id, { signed_in_with: 'code' }),
      entry('ui_code.create', 'ui', { expires_at: new Date(code.expiresAt).toISOString() }),
    ]);
  });
}
