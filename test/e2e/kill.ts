import { randomInt } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { eventually } from './client.ts';
import { prepareDaemon, total } from './daemon.ts';
import { type Check, compare, type Entry, Sightings, startLoad } from './journal.ts';
import { rollupProblems } from './rollup-recount.ts';

/**
 * Kills the daemon with SIGKILL at random moments under load, restarts it, and compares the store with the journal
 * of the clients: acknowledged items are stored exactly once and equal, rejected items are not stored, and
 * unanswered requests are stored whole or not at all. The rollups equal a recount of the traces.
 *
 *   node test/e2e/kill.ts --kills 50
 */
export type Summary = {
  readonly kills: number;
  readonly requests: number;
  readonly acknowledged: number;
  readonly items: number;
  /** Unanswered requests that are stored, whole. */
  readonly unansweredStored: number;
  readonly unansweredLost: number;
  readonly refused: number;
  /** One sentence for each violation; empty if there is none. */
  readonly problems: readonly string[];
};

export async function killLoop(kills: number, progress: (text: string) => void): Promise<Summary> {
  const daemon = await prepareDaemon();
  try {
    const journal: Entry[] = [];
    for (let kill = 0; kill < kills; kill++) {
      await daemon.start();
      const load = startLoad(() => daemon, journal);
      await sleep(randomInt(20, 500));
      await daemon.end('SIGKILL');
      await load.stop();
      progress(`kill ${kill + 1} of ${kills}, ${journal.length} requests`);
    }
    await daemon.start();
    await eventually(
      () => daemon.metrics(),
      (samples) => total(samples, 'tracectl_queue_entries') === 0,
      'an empty queue',
      60_000,
    );
    const check = await compare(() => daemon, journal);
    await daemon.end('SIGTERM');
    check.problems.push(...storedOnce(join(daemon.directory, 'data'), journal));
    check.problems.push(...rollupProblems(join(daemon.directory, 'data')));
    return summarize(kills, journal, check);
  } finally {
    await daemon.remove();
  }
}

/** Searches every cell of every database file, without knowledge of the tables. */
export function storedOnce(directory: string, journal: readonly Entry[]): string[] {
  const seen = new Sightings();
  for (const file of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (/\.(db|sqlite3?)$/.test(file)) lookInto(join(directory, file), seen);
  }
  return seen.problems(journal);
}

function lookInto(path: string, seen: Sightings): void {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    for (const { name } of tables) {
      const rows = database.prepare(`SELECT * FROM "${String(name)}"`);
      rows.setReadBigInts(true);
      for (const row of rows.iterate()) {
        for (const value of Object.values(row)) seen.look(value, String(name));
      }
    }
  } finally {
    database.close();
  }
}

function summarize(kills: number, journal: readonly Entry[], check: Check): Summary {
  const acknowledged = journal.filter(({ state }) => state === 'acknowledged');
  return {
    kills,
    requests: journal.length,
    acknowledged: acknowledged.length,
    items: acknowledged.reduce((sum, { items }) => sum + items.length, 0),
    unansweredStored: check.stored,
    unansweredLost: check.lost,
    refused: journal.filter(({ state }) => state === 'refused').length,
    problems: check.problems,
  };
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { kills: { type: 'string', default: '50' } } });
  const print = (text: string) => void process.stdout.write(`${text}\n`);
  const { problems, ...counts } = await killLoop(Number(values.kills), print);
  for (const problem of problems.slice(0, 50)) print(problem);
  print(
    `${JSON.stringify(counts)} ${problems.length === 0 ? 'ok' : `${problems.length} problems`}`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
}
