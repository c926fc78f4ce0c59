/**
 * Rollups (`src/store/rollups`): numbers of traces by hour and by day. The traces of earlier versions are added in the
 * background, with their summary. Texts of clients are escaped (traces/text.ts).
 */
export const rollups = {
  name: '0017-rollups',
  sql: `
    -- What the trace contributed.
    ALTER TABLE traces ADD COLUMN rollup text;
    CREATE TABLE rollups (
      project text COLLATE "C" NOT NULL,
      -- Hours of the period: 1, or 24.
      step smallint NOT NULL,
      field smallint NOT NULL,
      -- In hours since the epoch.
      start bigint NOT NULL,
      value text COLLATE "C" NOT NULL,
      traces bigint NOT NULL,
      observations bigint NOT NULL,
      errors bigint NOT NULL,
      -- Sums of what clients send may exceed the integers that JavaScript has.
      input float8 NOT NULL,
      output float8 NOT NULL,
      cached float8 NOT NULL,
      cost float8 NOT NULL,
      latencies bytea NOT NULL,
      PRIMARY KEY (project, step, field, start, value)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
    -- What writes changed and housekeeping has not added to the rollups yet; readers add it.
    CREATE SEQUENCE rollup_delta_numbers;
    CREATE TABLE rollup_deltas (
      project text COLLATE "C" NOT NULL,
      n bigint NOT NULL DEFAULT nextval('rollup_delta_numbers'),
      kind smallint NOT NULL,
      changes text NOT NULL,
      PRIMARY KEY (project, n)
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    UPDATE traces SET stale_changes = 1 WHERE stale_changes = 0;
  `,
};
