import { NUMBERS_A_DAY } from '../traces/numbers.ts';

/**
 * Traces, observations and postings in partitions of days (`traces/partitions.ts`). The tables of earlier versions become the first
 * partition, with their indexes: Postgres reads them once, and writes nothing. A partitioned table has no unique key
 * without its partition key, so that a narrow table keeps the keys of traces.
 */
export const partitionedTraces = {
  name: '0016-trace-partitions',
  sql: `
    CREATE TABLE trace_keys (
      project text COLLATE "C" NOT NULL,
      key bytea NOT NULL,
      n bigint NOT NULL,
      PRIMARY KEY (project, key)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    -- Traces of the project '' are being removed.
    INSERT INTO trace_keys SELECT project, key, n FROM traces WHERE project <> '' ORDER BY project, key;
    ALTER SEQUENCE trace_numbers MAXVALUE ${NUMBERS_A_DAY - 1} CYCLE;
    ALTER TABLE traces DROP CONSTRAINT traces_project_key_key, ALTER COLUMN n DROP DEFAULT;

    CREATE FUNCTION partition_by_range(name text, number_column text, options text) RETURNS void
    LANGUAGE plpgsql AS $$
      DECLARE
        i record;
        first text := name || '_first';
        bound text := '${NUMBERS_A_DAY}';
      BEGIN
        EXECUTE format('ALTER TABLE %I RENAME TO %I', name, first);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL EXCLUDING INDEXES) PARTITION BY RANGE (%I)',
          name, first, number_column);
        -- An index of the partition becomes a part of the equal one of the table.
        FOR i IN
          SELECT c.relname AS index, x.indisprimary AS is_primary, pg_get_indexdef(x.indexrelid) AS definition,
            pg_get_constraintdef(k.oid) AS key
          FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
          LEFT JOIN pg_constraint k ON k.conindid = x.indexrelid AND k.contype = 'p'
          WHERE x.indrelid = first::regclass ORDER BY c.relname
        LOOP
          EXECUTE format('ALTER INDEX %I RENAME TO %I', i.index, i.index || '_first');
          IF i.is_primary THEN
            EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I %s', name, i.index, i.key);
          ELSE
            EXECUTE regexp_replace(i.definition, ' ON (ONLY )?(\\S+\\.)?' || first || ' USING ',
              format(' ON %I USING ', name));
          END IF;
        END LOOP;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', name, first, bound);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT WITH (%s)', name || '_default', name, options);
      END $$;
    SELECT partition_by_range('traces', 'n', 'fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05');
    SELECT partition_by_range('observations', 'trace', 'fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05');
    SELECT partition_by_range('trace_terms', 'trace', 'autovacuum_vacuum_scale_factor = 0.05');
    DROP FUNCTION partition_by_range(text, text, text);
  `,
};
