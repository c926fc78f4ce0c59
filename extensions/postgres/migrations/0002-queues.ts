/**
 * Queues that processes share. `batches` has each batch once; the queues have a narrow row for each branch in which it
 * waits. Times are milliseconds since the epoch.
 */
export const queues = {
  name: '0002-queues',
  sql: `
    CREATE TABLE queue_branches (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      queue text NOT NULL,
      branch text NOT NULL,
      UNIQUE (queue, branch)
    );
    -- Processes with leases and claims. A process that stops renewing its row counts as dead.
    CREATE TABLE queue_holders (
      id text PRIMARY KEY,
      expires_at bigint NOT NULL
    );
    CREATE SEQUENCE queue_seq;
    CREATE TABLE queue_entries (
      branch integer NOT NULL,
      batch_id text COLLATE "C" NOT NULL,
      seq bigint NOT NULL,
      project text NOT NULL,
      received_at bigint NOT NULL,
      items integer NOT NULL,
      bytes bigint NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      due bigint NOT NULL DEFAULT 0,
      holder text,
      PRIMARY KEY (branch, batch_id)
    ) WITH (
      autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
      autovacuum_vacuum_cost_delay = 0
    );
    CREATE INDEX queue_entries_free ON queue_entries (branch, due, seq) WHERE holder IS NULL;
    CREATE INDEX queue_entries_held ON queue_entries (holder) WHERE holder IS NOT NULL;
    CREATE TABLE queue_dead_letters (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      branch integer NOT NULL,
      batch_id text COLLATE "C" NOT NULL,
      seq bigint NOT NULL,
      project text NOT NULL,
      received_at bigint NOT NULL,
      items integer NOT NULL,
      bytes bigint NOT NULL,
      code text NOT NULL,
      message text NOT NULL,
      failed_at bigint NOT NULL
    );
    CREATE TABLE queue_quarantined (
      queue text NOT NULL,
      batch_id text NOT NULL,
      reason text NOT NULL,
      found_at bigint NOT NULL,
      PRIMARY KEY (queue, batch_id)
    );
    -- Answers for an Idempotency-Key. A row without a status is the claim of a request in flight.
    CREATE TABLE idempotency (
      hash bytea PRIMARY KEY,
      request_hash bytea NOT NULL,
      project text NOT NULL,
      claim text NOT NULL,
      holder text,
      status integer,
      content_type text,
      body bytea,
      expires_at bigint NOT NULL
    );
    CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);
  `,
};
