/** Batches that had events of an expired trace when other traces kept them, once they are no longer noted in `free_batches`. */
export const partlyExpired = {
  name: '0028-partly-expired',
  sql: 'CREATE TABLE partly_expired (id text COLLATE "C" PRIMARY KEY)',
};
