/**
 * The clock of one process does not open windows for all: `reserve_usage` trusts no hour after the next one of the
 * database. It answers `later` with the hour in force to a reservation in such an hour, and removes windows of such an
 * hour, so that they are rebuilt.
 */
export const hourBound = {
  name: '0025-hour-bound',
  sql: `
    CREATE OR REPLACE FUNCTION reserve_usage(
      batch text, org text, proj text, key_id text, at_month integer, at_hour integer,
      more_events bigint, more_bytes bigint, org_events bigint, org_bytes bigint,
      proj_events bigint, proj_bytes bigint, expires bigint,
      OUT answer text, OUT detail text
    ) LANGUAGE plpgsql AS $$
      DECLARE
        o usage_windows; p usage_windows;
        present integer := floor(extract(epoch FROM clock_timestamp()) / 3600);
      BEGIN
        SELECT * INTO o FROM usage_windows WHERE organization = org AND project = '' FOR UPDATE;
        IF NOT FOUND THEN answer := 'missing'; RETURN; END IF;
        IF o.hour > present + 1 THEN
          DELETE FROM usage_windows WHERE organization = org;
          answer := 'missing'; RETURN;
        END IF;
        IF at_hour > present + 1 THEN answer := 'later'; detail := greatest(present, o.hour); RETURN; END IF;
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
  `,
};
