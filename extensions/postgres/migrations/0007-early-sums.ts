/**
 * Usage is added to `usage_hours` soon after its batch, so that the sum of the ledger reads few rows. A row whose usage
 * is in `usage_hours` keeps its batch from being entered again, and has no events and no bytes. Processes of earlier
 * versions sum such a row up as nothing.
 */
export const earlySums = {
  name: '0007-early-sums',
  sql: `
    CREATE INDEX usage_ledger_unsummed ON usage_ledger (hour, batch_id) WHERE events > 0 OR bytes > 0;
    CREATE OR REPLACE VIEW all_usage AS
      SELECT organization, project, key, hour, events, bytes FROM usage_hours
      UNION ALL SELECT organization, project, key, hour, events, bytes FROM usage_ledger
      WHERE organization IS NOT NULL AND (events > 0 OR bytes > 0);
  `,
};
