/** The program that sent a rejected item or refused request; null for the entries of earlier versions. */
export const clientsOfRejections = {
  name: '0020-rejection-clients',
  sql: 'ALTER TABLE rejections ADD COLUMN client text',
};
