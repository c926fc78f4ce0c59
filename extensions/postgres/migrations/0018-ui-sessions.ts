/** Sessions of the web UI and their one-time codes, by the SHA-256 of their secret. */
export const uiSessions = {
  name: '0018-ui-sessions',
  sql: `
    CREATE TABLE ui_sessions (
      hash bytea PRIMARY KEY,
      id text COLLATE "C" NOT NULL UNIQUE,
      binding bytea NOT NULL,
      signed_in_with text NOT NULL,
      created_at bigint NOT NULL,
      last_used_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      address text,
      user_agent text
    );
    CREATE TABLE ui_codes (
      hash bytea PRIMARY KEY,
      expires_at bigint NOT NULL
    );
  `,
};
