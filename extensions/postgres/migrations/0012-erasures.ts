/** Erasures, and the traces and batches that the running ones work on. Times are milliseconds since the epoch. */
export const erasures = {
  name: '0012-erasures',
  sql: `
    CREATE TABLE erasures (
      n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      id text NOT NULL UNIQUE,
      project text COLLATE "C" NOT NULL,
      is_open boolean NOT NULL,
      traces bigint NOT NULL,
      observations bigint NOT NULL,
      bytes bigint NOT NULL,
      record text NOT NULL
    );
    CREATE INDEX erasures_by_project ON erasures (project, n);
    CREATE INDEX open_erasures ON erasures (n) WHERE is_open;
    CREATE TABLE erasure_traces (
      erasure text NOT NULL,
      key bytea NOT NULL,
      is_open boolean NOT NULL,
      PRIMARY KEY (erasure, key)
    );
    CREATE INDEX open_erasure_traces ON erasure_traces (erasure, key) WHERE is_open;
    CREATE TABLE erasure_batches (
      erasure text NOT NULL,
      batch text COLLATE "C" NOT NULL,
      is_open boolean NOT NULL,
      PRIMARY KEY (erasure, batch)
    );
    CREATE INDEX open_erasure_batches ON erasure_batches (erasure, batch) WHERE is_open;
    -- Ids of erased items that the answers to their requests may repeat; escaped like all texts of clients.
    CREATE TABLE erasure_items (
      erasure text NOT NULL,
      id text COLLATE "C" NOT NULL,
      PRIMARY KEY (erasure, id)
    );
    -- Request positions of the items that were erased from a batch: a delivery under way must not store them again.
    CREATE TABLE erased_items (
      batch text COLLATE "C" PRIMARY KEY,
      positions text NOT NULL,
      erased_at bigint NOT NULL
    );
    CREATE INDEX erased_items_by_time ON erased_items (erased_at);
    -- Trace ids and users that are not stored again, by their hashes.
    CREATE TABLE erasure_blocks (
      project text COLLATE "C" NOT NULL,
      hash text NOT NULL,
      until bigint NOT NULL,
      PRIMARY KEY (project, hash)
    );
    CREATE INDEX queue_dead_letters_by_project ON queue_dead_letters (project, batch_id);
  `,
};
