import { LOCK } from '../batches/accept-lock.ts';

/**
 * Gives reservations back in the order in which other transactions lock: the accept lock, which a rebuild of the windows holds;
 * ledger entries, as a transaction that accepts does; the window of the organization before those of its projects, as
 * `reserve_usage` does.
 */
export const giveBackOrder = {
  name: '0024-give-back-order',
  sql: `
    CREATE OR REPLACE FUNCTION give_back_usage(batches text[]) RETURNS void LANGUAGE plpgsql AS $$
      DECLARE returned text[]; r usage_reservations;
      BEGIN
        PERFORM pg_advisory_xact_lock_shared(${LOCK});
        WITH entered AS (
          INSERT INTO usage_ledger (batch_id, hour, events, bytes)
          SELECT batch_id, hour, 0, 0 FROM usage_reservations WHERE batch_id = ANY (batches)
          ORDER BY batch_id ON CONFLICT DO NOTHING RETURNING batch_id
        )
        SELECT coalesce(array_agg(batch_id), '{}') INTO returned FROM entered;
        PERFORM 1 FROM usage_windows WHERE project = '' ORDER BY organization FOR UPDATE;
        FOR r IN DELETE FROM usage_reservations WHERE batch_id = ANY (batches) RETURNING *
        LOOP
          CONTINUE WHEN r.batch_id <> ALL (returned);
          UPDATE usage_windows SET
            events = events - CASE WHEN month = r.month THEN r.events ELSE 0 END,
            bytes = bytes - CASE WHEN hour = r.hour THEN r.bytes ELSE 0 END
          WHERE organization = r.organization AND project IN ('', r.project);
        END LOOP;
      END $$;
  `,
};
