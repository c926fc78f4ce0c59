/** The indexes that lead a search (`src/store/plan`), each in the order of time. The status 4 is `error`. */
export const traceIndexes = {
  name: '0009-trace-indexes',
  sql: `
    CREATE INDEX traces_by_session ON traces (project, session_id, at_ms, at_ns, n)
      WHERE session_id IS NOT NULL;
    CREATE INDEX traces_by_user ON traces (project, user_id, at_ms, at_ns, n)
      WHERE user_id IS NOT NULL;
    CREATE INDEX failed_traces ON traces (project, at_ms, at_ns, n) WHERE errors > 0 OR status = 4;
  `,
};
