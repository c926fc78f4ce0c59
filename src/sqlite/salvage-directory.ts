import { rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../component/clock.ts';
import type { Logger } from '../component/component.ts';
import { openDirectory } from './directory.ts';
import { isFilled, salvageFile } from './opening.ts';
import type { OperationModule } from './operation.ts';
import type { SalvagedTable } from './salvage.ts';

export type SalvagedDatabase = {
  readonly file: string;
  /** Where the former file was moved. */
  readonly kept: string;
  readonly tables: readonly SalvagedTable[];
  /** The new file lacks the rows without which a start refuses a file in use; the next start makes a new store. */
  readonly startsAnew: boolean;
};

/** Salvages the database of a directory that no process has open, as far as it is readable. */
export async function salvageDatabase(
  { directory, name, operations }: { directory: string; name: string; operations: URL },
  logger: Logger,
): Promise<SalvagedDatabase> {
  const module = (await import(operations.href)) as OperationModule;
  const owned = await openDirectory({
    ...{ directory, name, createDirectory: false, minFreeBytes: 0, reserveBytes: 0 },
    ...{ clock: systemClock, logger },
  });
  try {
    const file = owned.databaseFile;
    const salvaged = salvageFile(module, file);
    const startsAnew = !hasEssentialRows(module, file);
    if (startsAnew) await rm(owned.filledFile, { force: true });
    return { file, ...salvaged, startsAnew };
  } finally {
    await owned.close();
  }
}

function hasEssentialRows(module: OperationModule, file: string): boolean {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return isFilled(module, db);
  } finally {
    db.close();
  }
}
