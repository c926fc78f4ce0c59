/** Clients name a score by its id alone. */
export const scoreIdIndex = {
  name: '0019-score-ids',
  sql: 'CREATE INDEX scores_by_id ON scores (project, id);',
};
