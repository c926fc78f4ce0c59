/**
 * Milliseconds since the epoch by the clock of the database, as SQL. Whatever one process writes and another one
 * compares with the time (leases, due times) uses it, because the clocks of processes differ.
 */
export const DATABASE_NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
