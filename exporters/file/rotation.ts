import { lstat, readdir, rename, unlink } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import type { Logger } from '../../src/component/component.ts';

const DAY_MS = 86_400_000;

/** Renames `traces.jsonl` to `traces-2026-01-15T12-00-00.000Z.jsonl`, and never replaces another file. */
export async function moveAside(path: string, now: number): Promise<void> {
  const { stem, extension } = namesOf(path);
  const time = new Date(now).toISOString().replaceAll(':', '-');
  for (let attempt = 0; ; attempt++) {
    const suffix = attempt === 0 ? '' : `.${String(attempt).padStart(4, '0')}`;
    const target = join(dirname(path), `${stem}-${time}${suffix}${extension}`);
    const isTaken = await lstat(target).then(
      () => true,
      () => false,
    );
    if (isTaken) continue;
    await rename(path, target);
    return;
  }
}

/** Deletes renamed files that are too many or too old. A failure is logged and delays no delivery. */
export async function prune(
  path: string,
  limits: { readonly max_days: number; readonly max_backups: number },
  now: number,
  logger: Logger,
): Promise<void> {
  try {
    const backups = await backupsOf(path);
    const surplus = limits.max_backups === 0 ? 0 : Math.max(0, backups.length - limits.max_backups);
    const oldest = limits.max_days === 0 ? -Infinity : now - limits.max_days * DAY_MS;
    for (const [i, { name, at }] of backups.entries()) {
      if (i < surplus || at < oldest) await unlink(join(dirname(path), name));
    }
  } catch (err) {
    logger.warn({ path, err }, 'Rotated files could not be deleted');
  }
}

/** The renamed files, oldest first. A file with any other name belongs to the user. */
async function backupsOf(path: string): Promise<{ name: string; at: number }[]> {
  const { stem, extension } = namesOf(path);
  const found: { name: string; at: number }[] = [];
  for (const entry of await readdir(dirname(path), { withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.startsWith(`${stem}-`)) continue;
    if (!entry.name.endsWith(extension)) continue;
    const middle = entry.name.slice(stem.length + 1, entry.name.length - extension.length);
    const match = /^(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d\.\d{3}Z)(?:\.\d{4})?$/.exec(middle);
    if (match === null) continue;
    const at = Date.parse(`${match[1]}${match[2]}:${match[3]}:${match[4]}`);
    if (!Number.isNaN(at)) found.push({ name: entry.name, at });
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function namesOf(path: string): { stem: string; extension: string } {
  const extension = extname(path);
  return { stem: basename(path, extension), extension };
}
