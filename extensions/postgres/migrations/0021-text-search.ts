/**
 * The index of payload text (`search/`), in partitions of the numbers of traces like `observations`. All tables are empty without
 * payload search.
 */
export const textSearch = {
  name: '0021-text-search',
  sql: `
    CREATE TABLE text_search (
      id boolean PRIMARY KEY CHECK (id),
      -- The bytes of a field that are searched; 0 without payload search.
      bytes integer NOT NULL,
      -- The place of the walk over the stored observations; NULL once it is over.
      trace bigint,
      key bytea,
      -- Observations that the walk has indexed, and about how many there were.
      indexed bigint NOT NULL,
      stored bigint NOT NULL
    ) WITH (fillfactor = 50);
    INSERT INTO text_search VALUES (true, 0, NULL, NULL, 0, 0);
    -- Observations that were written, moved or removed, and that the index does not have as they are.
    CREATE SEQUENCE text_change_numbers;
    CREATE TABLE text_changes (
      n bigint PRIMARY KEY DEFAULT nextval('text_change_numbers'),
      trace bigint NOT NULL,
      observation bigint NOT NULL,
      key bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    CREATE TABLE payload_texts (
      trace bigint NOT NULL,
      observation bigint NOT NULL,
      words text COLLATE "C" NOT NULL,
      -- Hashes of the words and labels (src/store/search/tokens.ts).
      tokens bigint[] NOT NULL,
      PRIMARY KEY (trace, observation)
    ) PARTITION BY RANGE (trace);
    CREATE INDEX payload_texts_by_token ON payload_texts USING gin (tokens);
    DO $$
      DECLARE
        p record;
      BEGIN
        FOR p IN
          SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = 'traces'::regclass ORDER BY c.relname
        LOOP
          EXECUTE format('CREATE TABLE %I PARTITION OF payload_texts %s WITH (autovacuum_vacuum_scale_factor = 0.05)',
            'payload_texts_' || substr(p.name, length('traces_') + 1), p.bound);
        END LOOP;
      END $$;
  `,
};
