/** The details of observations, as JSON. */
export const details = {
  name: '0006-details',
  sql: 'ALTER TABLE observations ADD COLUMN details text;',
};
