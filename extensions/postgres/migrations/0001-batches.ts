/** Batches as they were received, stored once, whoever waits for them. */
export const batches = {
  name: '0001-batches',
  sql: `
    CREATE TABLE batches (
      id text COLLATE "C" PRIMARY KEY,
      organization text NOT NULL,
      project text NOT NULL,
      key text NOT NULL,
      permissions integer NOT NULL,
      format integer NOT NULL,
      encoding integer NOT NULL,
      received_at bigint NOT NULL,
      request_items integer NOT NULL,
      items integer NOT NULL,
      usage_events bigint NOT NULL,
      usage_bytes bigint NOT NULL,
      positions text,
      rejections text,
      body bytea NOT NULL
    );
    -- Bodies come compressed, or are compressed by nobody: a second attempt only costs.
    ALTER TABLE batches ALTER COLUMN body SET STORAGE EXTERNAL;
  `,
};
