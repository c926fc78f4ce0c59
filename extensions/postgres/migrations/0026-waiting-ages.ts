/** Updates and children that wait for a run expire by their age: without the indexes each look reads all that wait. */
export const waitingAges = {
  name: '0026-waiting-ages',
  sql: `
    CREATE INDEX pending_updates_by_age ON pending_updates (project, received_at);
    CREATE INDEX waiting_children_by_age ON waiting_children (project, received_at);
  `,
};
