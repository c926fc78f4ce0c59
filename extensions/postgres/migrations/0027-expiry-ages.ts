/** Rejections and dead letters expire by their age: without the indexes each look reads all of them. */
export const expiryAges = {
  name: '0027-expiry-ages',
  sql: `
    CREATE INDEX rejections_by_age ON rejections (at);
    CREATE INDEX queue_dead_letters_by_age ON queue_dead_letters (project, received_at);
  `,
};
