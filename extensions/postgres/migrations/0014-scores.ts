/** Scores belong to the key of a trace, which may arrive after them. Texts of clients are escaped (traces/text.ts). */
export const scoreTable = {
  name: '0014-scores',
  sql: `
    CREATE TABLE scores (
      project text COLLATE "C" NOT NULL,
      trace bytea NOT NULL,
      id text COLLATE "C" NOT NULL,
      observation text,
      name text COLLATE "C" NOT NULL,
      -- JSON: a number, a boolean or a text.
      value text COLLATE "C" NOT NULL,
      number float8,
      comment text,
      source text,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL,
      PRIMARY KEY (project, trace, id)
    );
    CREATE INDEX scores_by_age ON scores (project, updated_at);
  `,
};
