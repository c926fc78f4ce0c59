import { z } from 'zod';
import type { Clock, Logger } from '../component/component.ts';
import { HOUR_MS } from '../model/usage-window.ts';
import { duration } from '../schema/fields.ts';
import type { RejectionEntry, RejectionStore } from './contract.ts';
import { cursorAfter, numberOf } from './cursor.ts';
import type { ProjectRejections, RejectedRow, RejectionRow, TenancyRows } from './rows.ts';

/** Delay until an entry is stored. */
const FLUSH_MS = 1000;
/** Entries written in one step. */
const FLUSH_LINES = 500;
/** Most entries in memory. Above that only the counts are kept. */
const WAITING_LINES = 10_000;
/** Most entries of one project in memory, so that its refused requests leave room for the entries of others. */
const PROJECT_LINES = WAITING_LINES / 4;
/** Most different counts in memory, each of an hour, a project, a key and a code. */
const WAITING_COUNTS = 50_000;
/** Longest stored reason or path, in characters. */
const LONGEST = 500;

export const rejections = z
  .strictObject({
    max_entries: z.int().min(0).default(10_000).describe('Most entries of each project.'),
    max_age: duration('720h').describe('Longest age of an entry.'),
  })
  .prefault({})
  .describe('The log of rejected items and refused requests, without payloads.');

export type RejectionsConfig = z.output<typeof rejections>;

export type Rejections = RejectionStore & {
  /** Writes the buffered entries. */
  flush(): Promise<void>;
  /** Writes the buffered entries, before the database is closed. */
  close(): Promise<void>;
  crash(): void;
};

/** A count that grows in memory until it is written. */
type Count = { -readonly [Column in keyof RejectedRow]: RejectedRow[Column] };

export function rejectionStore(
  rows: TenancyRows,
  clock: Clock,
  logger: Logger,
  config: RejectionsConfig,
): Rejections {
  const waiting = new Waiting(rows, clock, logger, config);
  return {
    record: (entry) => waiting.record(entry),
    flush: () => waiting.flush(),
    crash: () => waiting.stop(),
    async close() {
      waiting.stop();
      await waiting.flush();
    },
    async list(projectId, page) {
      const since = clock.now() - config.max_age;
      const before = numberOf(page.cursor);
      const found = await rows.rejections(projectId, before, since, page.limit + 1);
      const shown = found.slice(0, page.limit);
      const last = shown.at(-1);
      const hasMore = found.length > page.limit && last !== undefined;
      return {
        items: shown.map((row) => entryOf(projectId, row)),
        nextCursor: hasMore ? cursorAfter(last.n) : null,
      };
    },
  };
}

/**
 *   record ──▶ entries and counts in memory ──(every second, in steps)──▶ database
 */
class Waiting {
  readonly #rows: TenancyRows;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #config: RejectionsConfig;
  #lines: RejectionEntry[] = [];
  /** Entries in memory by project; projects without one are not in it. */
  readonly #linesOf = new Map<string, number>();
  readonly #counts = new Map<string, Count>();
  /** Entries that exceeded the bound in memory. */
  #lost = 0;
  #isStopped = false;
  #cancel: (() => void) | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(rows: TenancyRows, clock: Clock, logger: Logger, config: RejectionsConfig) {
    this.#rows = rows;
    this.#clock = clock;
    this.#logger = logger;
    this.#config = config;
  }

  record(entry: RejectionEntry): void {
    if (this.#isStopped) return;
    if (this.#config.max_entries > 0) {
      if (this.#hasRoomFor(entry.projectId)) {
        this.#lines.push(entry);
        this.#countLine(entry, 1);
      } else {
        this.#lost++;
      }
    }
    const { at, projectId, keyId, code, count } = entry;
    const hour = Math.floor(at / HOUR_MS);
    this.#addCount({ hour, project: projectId, key: keyId, code, count });
    this.#schedule(FLUSH_MS);
  }

  #hasRoomFor(projectId: string): boolean {
    const own = this.#linesOf.get(projectId) ?? 0;
    return this.#lines.length < WAITING_LINES && own < PROJECT_LINES;
  }

  #countLine({ projectId }: RejectionEntry, change: number): void {
    const count = (this.#linesOf.get(projectId) ?? 0) + change;
    if (count > 0) this.#linesOf.set(projectId, count);
    else this.#linesOf.delete(projectId);
  }

  #addCount(added: Count): void {
    const name = nameOf(added);
    const known = this.#counts.get(name);
    if (known !== undefined) known.count += added.count;
    else if (this.#counts.size < WAITING_COUNTS) this.#counts.set(name, added);
    else this.#lost++;
  }

  #schedule(ms: number): void {
    if (this.#isStopped) return;
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#cancel = undefined;
      void this.flush();
    });
  }

  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(async () => {
      while (this.#lines.length > 0 || this.#counts.size > 0) {
        if (!(await this.#writeStep())) return;
      }
      if (this.#lost === 0) return;
      const lines = this.#lost;
      this.#lost = 0;
      this.#logger.warn({ lines }, 'Rejections exceeded the buffer; only their counts are kept');
    });
    return this.#flushing;
  }

  /** True if the rows were written. Rows of a failed write stay buffered. */
  async #writeStep(): Promise<boolean> {
    const lines = this.#lines.slice(0, FLUSH_LINES);
    const counts = [...this.#counts.values()].slice(0, FLUSH_LINES);
    this.#lines = this.#lines.slice(FLUSH_LINES);
    for (const line of lines) this.#countLine(line, -1);
    for (const count of counts) this.#counts.delete(nameOf(count));
    try {
      const most = this.#config.max_entries;
      await this.#rows.recordRejections(byProject(lines), counts, most, this.#isStopped);
      return true;
    } catch (error) {
      const about = { err: error, lines: lines.length };
      this.#logger.warn(about, 'Rejections could not be saved');
      for (const line of lines) this.#countLine(line, 1);
      this.#lines = [...lines, ...this.#lines];
      for (const count of counts) this.#addCount(count);
      this.#schedule(10 * FLUSH_MS);
      return false;
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

function nameOf({ hour, project, key, code }: Count): string {
  return `${hour} ${project} ${key} ${code}`;
}

function byProject(entries: readonly RejectionEntry[]): ProjectRejections[] {
  const projects = new Map<string, RejectionRow[]>();
  for (const { at, projectId, keyId, path, code, reason, itemId, client, count } of entries) {
    const row: RejectionRow = {
      ...{ at, key: keyId, path: cut(path), code, reason: cut(reason) },
      ...{ item: itemId, client, count },
    };
    const rows = projects.get(projectId);
    if (rows === undefined) projects.set(projectId, [row]);
    else rows.push(row);
  }
  return [...projects].map(([project, rows]) => ({ project, rows }));
}

function cut(text: string): string {
  return text.length > LONGEST ? text.slice(0, LONGEST).toWellFormed() : text;
}

function entryOf(
  projectId: string,
  { at, key, path, code, reason, item, client, count }: RejectionRow,
): RejectionEntry {
  return {
    at,
    projectId,
    keyId: key,
    path,
    code: code as RejectionEntry['code'],
    reason,
    itemId: item,
    client,
    count,
  };
}
