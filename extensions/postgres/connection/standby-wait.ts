/** Commits that wait for a synchronous standby. */
export type StandbyWait = {
  /** Milliseconds after which such a commit counts: its caller has given up. */
  readonly ms: number;
  /** With so many of them, a process opens no further connection for writing. */
  readonly sessions: number;
};

/** The code of the error, in the form of an SQLSTATE. */
export const NO_STANDBY = 'TL002';

const QUESTION = `SELECT count(*)::integer AS sessions FROM pg_stat_activity
  WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

type Ask = (text: string, values: readonly unknown[]) => Promise<{ readonly rows: unknown[] }>;

/**
 * Rejects while commits wait for a synchronous standby that does not answer. The server bounds such a wait by no time-out, and goes on with
 * it after the connection is closed, so that repeated requests would use up the connections of the server. Cancelling the waits instead
 * would make their data visible without a copy on the standby, and a repeated request would get the answer of the first one.
 */
export async function refuseWithoutStandby(ask: Ask, { ms, sessions }: StandbyWait): Promise<void> {
  const { rows } = await ask(QUESTION, [ms]);
  const [found] = rows as { readonly sessions: number }[];
  if (found === undefined || found.sessions < sessions) return;
  const error = new Error(`${found.sessions} commits wait for a synchronous standby`);
  throw Object.assign(error, { code: NO_STANDBY });
}
