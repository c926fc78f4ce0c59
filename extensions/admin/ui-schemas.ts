import { z } from 'zod';

const time = z.iso.datetime().describe('ISO 8601, UTC');

const signIn = z
  .strictObject({
    code: z.string().max(1000).optional().describe('Of a link; it opens one session.'),
    token: z.string().max(10_000).optional().describe('The admin token.'),
  })
  .refine(({ code, token }) => (code === undefined) !== (token === undefined), {
    error: 'must have either code or token',
  })
  .meta({ id: 'SignIn', minProperties: 1, maxProperties: 1 });

const session = z
  .strictObject({
    id: z.string().describe('Names the session in the audit log. It is not the cookie.'),
    signed_in_with: z.enum(['code', 'token']),
    created_at: time,
    last_used_at: time.describe('At most a minute old.'),
    expires_at: time,
    address: z.string().nullable().describe('Of the client that signed in.'),
    user_agent: z.string().nullable(),
    is_current: z.boolean().describe('Whether it is the session of the request.'),
  })
  .meta({ id: 'UiSession' });

/** The schemas of the sessions of the web UI. */
export const UI_SCHEMAS = {
  signIn,
  session,
  ownSession: z.strictObject({ session: session.nullable() }).meta({ id: 'OwnUiSession' }),
  uiSessions: z.strictObject({ sessions: z.array(session) }).meta({ id: 'UiSessions' }),
  uiCode: z
    .strictObject({
      code: z.string(),
      expires_at: time,
      url: z.string().nullable().describe('A link that signs in; null if the address is unknown.'),
    })
    .meta({ id: 'UiCode' }),
};
