/**
 * Observations, merged over their events, and the sums of their traces; the payloads stay in `batches`. Texts of
 * clients are escaped (traces/text.ts), and compared byte by byte. Times are milliseconds since the epoch, and the
 * nanoseconds within them.
 */
export const traces = {
  name: '0004-traces',
  sql: `
    CREATE SEQUENCE trace_numbers;
    CREATE TABLE traces (
      n bigint PRIMARY KEY DEFAULT nextval('trace_numbers'),
      project text COLLATE "C" NOT NULL,
      key bytea NOT NULL,
      long_id text COLLATE "C",
      at_ms bigint NOT NULL,
      at_ns integer NOT NULL,
      start_ms bigint,
      start_ns integer,
      end_ms bigint,
      end_ns integer,
      -- The number of the root observation, and the cells that rank it.
      root bigint,
      root_has_parent smallint,
      root_ms bigint,
      root_ns integer,
      name text COLLATE "C",
      status smallint,
      observations integer NOT NULL,
      model_usage text,
      other_usage text,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL,
      -- Indexed instead of updated_at: an update within the hour touches no index.
      updated_hour integer NOT NULL GENERATED ALWAYS AS ((updated_at / 3600000)::integer) STORED,
      UNIQUE (project, key)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
    CREATE INDEX traces_by_time ON traces (project, at_ms, at_ns, n);
    CREATE INDEX traces_by_age ON traces (project, updated_hour);

    CREATE SEQUENCE observation_numbers;
    CREATE TABLE observations (
      trace bigint NOT NULL,
      key bytea NOT NULL,
      n bigint NOT NULL,
      project text COLLATE "C" NOT NULL,
      long_id text COLLATE "C",
      batch text COLLATE "C" NOT NULL,
      position integer NOT NULL,
      version numeric(20, 0) NOT NULL,
      flags integer NOT NULL,
      parent text COLLATE "C",
      name text COLLATE "C",
      kind smallint,
      status smallint,
      start_ms bigint,
      start_ns integer,
      end_ms bigint,
      end_ns integer,
      model text COLLATE "C",
      usage text,
      session text COLLATE "C",
      user_id text COLLATE "C",
      error text,
      custom text COLLATE "C",
      external text,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL,
      merged text,
      PRIMARY KEY (trace, key)
    ) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
    -- A span is found by its trace, whose id its own id begins with; every other id is found by this index.
    CREATE INDEX observations_by_key ON observations (project, key)
      WHERE substr(key, 1, 1) <> '\\x3a'::bytea;

    -- Updates that name no trace and whose run has not arrived.
    CREATE TABLE pending_updates (
      project text COLLATE "C" NOT NULL,
      key bytea NOT NULL,
      batch text COLLATE "C" NOT NULL,
      position integer NOT NULL,
      cells text NOT NULL,
      received_at bigint NOT NULL,
      PRIMARY KEY (project, key, batch, position)
    );
    CREATE INDEX pending_updates_by_batch ON pending_updates (batch);
    -- Runs that name a parent and no trace, while the parent is unknown or is in this table itself. Each has a
    -- row in a trace of its own id, or in its parent's trace, and moves when the parent's trace is known.
    CREATE TABLE waiting_children (
      project text COLLATE "C" NOT NULL,
      key bytea NOT NULL,
      parent bytea NOT NULL,
      received_at bigint NOT NULL,
      PRIMARY KEY (project, key)
    );
    CREATE INDEX waiting_children_by_parent ON waiting_children (project, parent);
    -- The traces that a raw batch has events of. The batch is removed after the last of them.
    CREATE TABLE batch_traces (
      batch text COLLATE "C" NOT NULL,
      trace bigint NOT NULL,
      PRIMARY KEY (batch, trace)
    );
    CREATE INDEX batch_traces_by_trace ON batch_traces (trace);
    CREATE INDEX queue_dead_letters_by_batch ON queue_dead_letters (batch_id);
    -- How far the walk for batches without a reference has come (batches/batch-walk.ts).
    CREATE TABLE batch_walk (
      begins_after text COLLATE "C" NOT NULL,
      begun_at bigint NOT NULL,
      took_ms bigint NOT NULL,
      whole_at bigint NOT NULL
    );
    INSERT INTO batch_walk VALUES ('', 0, 0, 0);
  `,
};
