import type { UiSession } from '../../src/tenancy/ui-sessions.ts';
import { clientUrl } from './client-url.ts';
import { ApiError } from './errors.ts';
import type { Operation } from './operation.ts';
import { operation } from './operation.ts';
import type { UiAccess } from './ui-access.ts';
import { UI_SCHEMAS } from './ui-schemas.ts';

const TAG = 'ui';

/** Signing in to the web UI, and its sessions. `urlOf`: the address at which a link opens the UI. */
export function uiOperations(ui: UiAccess, urlOf: () => string | undefined): Operation[] {
  return [...ownSession(ui), ...allSessions(ui), makeCode(ui, urlOf)];
}

function ownSession(ui: UiAccess): Operation[] {
  const signIn = operation({
    id: 'signIn',
    method: 'POST',
    path: '/api/v1/session',
    tag: TAG,
    summary: 'Open a session with a one-time code or the admin token; sets the cookie',
    isOpen: true,
    body: UI_SCHEMAS.signIn,
    status: 204,
    answer: undefined,
    codes: ['unauthorized', 'rate_limited'],
    async run({ body: { code, token = '' }, client }) {
      const credential = code === undefined ? { token } : { code };
      return { headers: { 'set-cookie': await ui.signIn(credential, client) } };
    },
  });
  const show = operation({
    id: 'getUiSession',
    method: 'GET',
    path: '/api/v1/session',
    tag: TAG,
    summary: 'Get the session of the request; null with the admin token',
    usesStore: false,
    status: 200,
    answer: UI_SCHEMAS.ownSession,
    run: async ({ session }) => ({
      body: { session: session === undefined ? null : shownSession(session, session.id) },
    }),
  });
  const signOut = operation({
    id: 'signOut',
    method: 'DELETE',
    path: '/api/v1/session',
    tag: TAG,
    summary: 'End the session of the request; removes the cookie',
    usesStore: false,
    status: 204,
    answer: undefined,
    async run({ session }, { by }) {
      if (session !== undefined) await ui.end(session.id, by);
      return { headers: { 'set-cookie': ui.removedCookie() } };
    },
  });
  return [signIn, show, signOut];
}

function allSessions(ui: UiAccess): Operation[] {
  const list = operation({
    id: 'listUiSessions',
    method: 'GET',
    path: '/api/v1/sessions/ui',
    tag: TAG,
    summary: 'List the sessions of the web UI, the one used last first',
    status: 200,
    answer: UI_SCHEMAS.uiSessions,
    async run({ session }) {
      const found = await ui.list();
      return { body: { sessions: found.map((each) => shownSession(each, session?.id)) } };
    },
  });
  const end = operation({
    id: 'endUiSession',
    method: 'DELETE',
    path: '/api/v1/sessions/ui/:id',
    tag: TAG,
    summary: 'End a session of the web UI',
    status: 204,
    answer: undefined,
    codes: ['not_found'],
    async run({ id }, { by }) {
      if (await ui.end(id, by)) return {};
      throw new ApiError('not_found', 'The session does not exist.');
    },
  });
  return [list, end];
}

function makeCode(ui: UiAccess, urlOf: () => string | undefined): Operation {
  return operation({
    id: 'createUiCode',
    method: 'POST',
    path: '/api/v1/sessions/codes',
    tag: TAG,
    summary: 'Make a one-time code that opens a session within 10 minutes',
    status: 201,
    answer: UI_SCHEMAS.uiCode,
    async run({ client }, { by }) {
      const { code, expiresAt } = await ui.makeCode(by);
      const url = urlOf();
      return {
        body: {
          code,
          expires_at: new Date(expiresAt).toISOString(),
          url: url === undefined ? null : linkWithCode(clientUrl(url, client.headers.host), code),
        },
      };
    },
  });
}

/** A link that signs in. A browser does not send the part behind `#`, so neither logs nor other sites get the code. */
export function linkWithCode(url: string, code: string): string {
  return `${url}/#code=${code}`;
}

function shownSession(session: UiSession, own: string | undefined): object {
  return {
    id: session.id,
    signed_in_with: session.signedInWith,
    created_at: new Date(session.createdAt).toISOString(),
    last_used_at: new Date(session.lastUsedAt).toISOString(),
    expires_at: new Date(session.expiresAt).toISOString(),
    address: session.address,
    user_agent: session.userAgent,
    is_current: session.id === own,
  };
}
