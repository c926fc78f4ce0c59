import { LOCK } from '../batches/accept-lock.ts';

const FUNCTIONS = `
    -- Begins a transaction that accepts data, and returns the deleted ones among the projects. Until it ends, no
    -- project is deleted and no epoch begins. The function is volatile, so that its second statement sees the
    -- deletion that the first one waited for.
    CREATE FUNCTION begin_accepting(projects text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_advisory_xact_lock_shared(${LOCK});
        RETURN QUERY SELECT project FROM deleted_projects WHERE project = ANY (projects);
      END $$;

    -- Reserves usage within the limits (null is none), or only checks them if batch is null. Answers ok; month
    -- or hour for an exceeded limit, with o (organization) or p (project); missing if the windows must be rebuilt
    -- first; later, with the hour in force, if the clock went back behind it.
    CREATE FUNCTION reserve_usage(
      batch text, org text, proj text, key_id text, at_month integer, at_hour integer,
      more_events bigint, more_bytes bigint, org_events bigint, org_bytes bigint,
      proj_events bigint, proj_bytes bigint, expires bigint,
      OUT answer text, OUT detail text
    ) LANGUAGE plpgsql AS $$
      DECLARE o usage_windows; p usage_windows;
      BEGIN
        SELECT * INTO o FROM usage_windows WHERE organization = org AND project = '' FOR UPDATE;
        IF NOT FOUND THEN answer := 'missing'; RETURN; END IF;
        IF o.hour > at_hour THEN answer := 'later'; detail := o.hour; RETURN; END IF;
        SELECT * INTO p FROM usage_windows WHERE organization = org AND project = proj FOR UPDATE;
        IF o.month < at_month THEN o.events := 0; END IF;
        IF o.hour < at_hour THEN o.bytes := 0; END IF;
        IF p.month IS NULL OR p.month < at_month THEN p.events := 0; END IF;
        IF p.hour IS NULL OR p.hour < at_hour THEN p.bytes := 0; END IF;
        IF more_events > 0 THEN
          IF o.events + more_events > org_events THEN answer := 'month'; detail := 'o'; RETURN; END IF;
          IF p.events + more_events > proj_events THEN answer := 'month'; detail := 'p'; RETURN; END IF;
        END IF;
        IF more_bytes > 0 THEN
          IF o.bytes + more_bytes > org_bytes THEN answer := 'hour'; detail := 'o'; RETURN; END IF;
          IF p.bytes + more_bytes > proj_bytes THEN answer := 'hour'; detail := 'p'; RETURN; END IF;
        END IF;
        answer := 'ok';
        IF batch IS NULL THEN RETURN; END IF;
        INSERT INTO usage_windows VALUES
          (org, '', at_month, o.events + more_events, at_hour, o.bytes + more_bytes),
          (org, proj, at_month, p.events + more_events, at_hour, p.bytes + more_bytes)
        ON CONFLICT (organization, project) DO UPDATE SET
          month = excluded.month, events = excluded.events, hour = excluded.hour, bytes = excluded.bytes;
        INSERT INTO usage_reservations VALUES
          (batch, org, proj, key_id, at_month, at_hour, more_events, more_bytes, expires);
      END $$;

    -- Gives back reservations of batches that did not become durable. The empty ledger entry keeps such a batch
    -- from being entered afterwards.
    CREATE FUNCTION give_back_usage(batches text[]) RETURNS void LANGUAGE plpgsql AS $$
      DECLARE r usage_reservations;
      BEGIN
        FOR r IN SELECT * FROM usage_reservations WHERE batch_id = ANY (batches)
          ORDER BY batch_id FOR UPDATE
        LOOP
          INSERT INTO usage_ledger (batch_id, hour, events, bytes) VALUES (r.batch_id, r.hour, 0, 0)
          ON CONFLICT DO NOTHING;
          IF FOUND THEN
            UPDATE usage_windows SET
              events = events - CASE WHEN month = r.month THEN r.events ELSE 0 END,
              bytes = bytes - CASE WHEN hour = r.hour THEN r.bytes ELSE 0 END
            WHERE organization = r.organization AND project IN ('', r.project);
          END IF;
          DELETE FROM usage_reservations WHERE batch_id = r.batch_id;
        END LOOP;
      END $$;
`;

/**
 * Projects, keys, usage and logs. Times are milliseconds since the epoch, hours are hours since then. Texts of clients
 * and users are escaped (tenancy/stored-text.ts).
 */
export const tenancy = {
  name: '0003-tenancy',
  sql: `
    CREATE TABLE organizations (
      id text PRIMARY KEY,
      -- There is one organization: of processes that start together, one creates it.
      one boolean NOT NULL DEFAULT true UNIQUE CHECK (one),
      name text NOT NULL,
      plan text NOT NULL,
      created_at bigint NOT NULL,
      -- Of the counters in Redis; see tenancy/shared-ledger.ts.
      epoch bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE projects (
      n bigint GENERATED ALWAYS AS IDENTITY,
      id text COLLATE "C" PRIMARY KEY,
      organization text NOT NULL,
      name text NOT NULL,
      created_at bigint NOT NULL,
      retention_days integer,
      events_per_month bigint,
      bytes_per_hour bigint
    );
    CREATE TABLE deleted_projects (
      project text COLLATE "C" PRIMARY KEY,
      deleted_at bigint NOT NULL,
      -- All data of the project is removed.
      is_purged boolean NOT NULL DEFAULT false
    );
    CREATE TABLE api_keys (
      n bigint GENERATED ALWAYS AS IDENTITY,
      id text PRIMARY KEY,
      project text COLLATE "C" NOT NULL,
      name text NOT NULL,
      hash bytea NOT NULL UNIQUE,
      prefix text NOT NULL,
      permissions integer NOT NULL,
      created_at bigint NOT NULL,
      last_used_at bigint,
      revoked_at bigint
    );
    CREATE INDEX api_keys_by_project ON api_keys (project);

    -- A row per batch until its hour is over; then usage_hours has a row per hour. A row without an organization
    -- keeps its batch from being entered.
    CREATE TABLE usage_ledger (
      batch_id text COLLATE "C" PRIMARY KEY,
      organization text,
      project text,
      key text,
      hour integer NOT NULL,
      events bigint NOT NULL,
      bytes bigint NOT NULL
    );
    CREATE INDEX usage_ledger_by_hour ON usage_ledger (hour);
    CREATE TABLE usage_hours (
      organization text NOT NULL,
      project text NOT NULL,
      key text NOT NULL,
      hour integer NOT NULL,
      events bigint NOT NULL,
      bytes bigint NOT NULL,
      PRIMARY KEY (organization, project, key, hour)
    );
    CREATE INDEX usage_hours_by_hour ON usage_hours (hour);
    CREATE VIEW all_usage AS
      SELECT organization, project, key, hour, events, bytes FROM usage_hours
      UNION ALL SELECT organization, project, key, hour, events, bytes FROM usage_ledger
      WHERE organization IS NOT NULL;

    -- Usage that counts toward limits, if no Redis counts it: of the organization (project ''), and of each project.
    CREATE TABLE usage_windows (
      organization text NOT NULL,
      project text NOT NULL,
      month integer NOT NULL,
      events bigint NOT NULL,
      hour integer NOT NULL,
      bytes bigint NOT NULL,
      PRIMARY KEY (organization, project)
    );
    CREATE TABLE usage_reservations (
      batch_id text COLLATE "C" PRIMARY KEY,
      organization text NOT NULL,
      project text NOT NULL,
      key text NOT NULL,
      month integer NOT NULL,
      hour integer NOT NULL,
      events bigint NOT NULL,
      bytes bigint NOT NULL,
      expires_at bigint NOT NULL
    );
    CREATE INDEX usage_reservations_by_expiry ON usage_reservations (expires_at);

    ${FUNCTIONS}
    CREATE TABLE rejections (
      n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      project text NOT NULL,
      at bigint NOT NULL,
      key text NOT NULL,
      path text NOT NULL,
      code text NOT NULL,
      reason text NOT NULL,
      item text,
      count bigint NOT NULL
    );
    CREATE INDEX rejections_by_project ON rejections (project, n);
    CREATE TABLE rejected_hours (
      hour integer NOT NULL,
      project text NOT NULL,
      key text NOT NULL,
      code text NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (hour, project, key, code)
    );

    CREATE TABLE audit_log (
      n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      at bigint NOT NULL,
      actor text NOT NULL,
      address text,
      action text NOT NULL,
      subject text NOT NULL,
      details text NOT NULL
    );
    CREATE FUNCTION audit_log_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
    CREATE TRIGGER audit_log_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
      FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_only_added_to();
  `,
};
