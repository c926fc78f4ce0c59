/**
 * Batches as they were received, stored once for all queues and traces. An id begins with its time, so that a range of
 * ids is a span of time: one partition per day (batches/partitions.ts), and a default one.
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
    -- Most bodies arrive compressed: trying to compress them again only costs CPU.
    ALTER TABLE batches ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE INDEX batches_by_project ON batches (project, id);
    CREATE TABLE batches_default PARTITION OF batches DEFAULT;
    -- Batches whose traces were removed: candidates for removal.
    CREATE TABLE free_batches (id text COLLATE "C" PRIMARY KEY, noted_at bigint NOT NULL);
    CREATE INDEX free_batches_by_time ON free_batches (noted_at);
  `,
};
