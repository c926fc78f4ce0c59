/** Observations that a client sends as a run and as a span (src/store/rows/copies.ts). Few rows have a cell in the column. */
export const copyKeys = {
  name: '0023-copies',
  sql: `
    ALTER TABLE observations ADD COLUMN copy text COLLATE "C";
    CREATE INDEX observations_by_copy ON observations (project, copy) WHERE copy IS NOT NULL;
  `,
};
