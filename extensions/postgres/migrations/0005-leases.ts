/** Leases for work that one process at a time does. Times are milliseconds since the epoch, by the database's clock. */
export const leases = {
  name: '0005-leases',
  sql: `
    CREATE TABLE work_leases (
      name text PRIMARY KEY,
      holder text NOT NULL,
      expires_at bigint NOT NULL
    );
    -- The first statement of a transaction that works under a lease: renews the lease, and fails if another process
    -- has taken it. Until the transaction ends, no process can take it. A process that freezes in the transaction is
    -- cut off after the idle time-out, which does not depend on the configuration.
    CREATE FUNCTION renew_work_lease(work text, by text, ms bigint) RETURNS void LANGUAGE plpgsql AS $$
      BEGIN
        UPDATE work_leases SET expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + ms
        WHERE name = work AND holder = by;
        IF NOT FOUND THEN
          RAISE EXCEPTION 'the work lease % was lost', work USING ERRCODE = 'TL001';
        END IF;
        PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
      END $$;
    -- When the entry entered its branch. Rows of earlier versions have none.
    ALTER TABLE queue_entries ADD COLUMN entered_at bigint;
    ALTER TABLE queue_entries ALTER COLUMN entered_at
      SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
  `,
};
