/**
 * Batches as they were received, stored once, whoever waits for them. An id begins with its time, so that a
 * range of ids is a span of time: a partition a day (partitions.ts), and one for all else.
 */
export const batches = {
  name: '0001-batches',
  sql: `
    CREATE TABLE batches (
      id text COLLATE "C" PRIMARY KEY,
      organization text NOT NULL,
      project text COLLATE "C" NOT NULL,
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
    ) PARTITION BY RANGE (id);
    -- Bodies come compressed, or are compressed by nobody: a second attempt only costs.
    ALTER TABLE batches ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE INDEX batches_by_project ON batches (project, id);
    CREATE TABLE batches_default PARTITION OF batches DEFAULT;
    -- Those that nothing points into any more, to be looked at.
    CREATE TABLE free_batches (id text COLLATE "C" PRIMARY KEY, noted_at bigint NOT NULL);
    CREATE INDEX free_batches_by_time ON free_batches (noted_at);
  `,
};
