import type { FileHandle } from 'node:fs/promises';
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { CommandError, EXIT } from '../exit-status.ts';
import { fileRefusal } from '../file-error.ts';

/** How far an export is: what its file has, and where it goes on. */
export type ExportState = {
  /** The parameters of the export, and the project. */
  readonly query: string;
  readonly project: string;
  readonly rows: number;
  readonly bytes: number;
  /** The value of `after` of the next part; null if the export is complete. */
  readonly next: string | null;
};

/**
 * The rows of an export that is not complete, and beside them how far it is. Each part is on the disk before the state
 * says so, so that an export goes on from the last complete part whatever ended it:
 *
 *   part ─▶ FILE.partial ─▶ fsync ─▶ FILE.partial.json
 */
export class PartialFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  #state: ExportState | undefined;

  private constructor(path: string, handle: FileHandle, state: ExportState | undefined) {
    this.#path = path;
    this.#handle = handle;
    this.#state = state;
  }

  /** Goes on if there is a partial export and `isResumed`; refuses to overwrite one otherwise. */
  static async open(output: string, isResumed: boolean): Promise<PartialFile> {
    const path = pathOf(output);
    const state = await readState(path);
    if (isResumed && state === undefined) {
      const advice = 'repeat the command without --resume';
      throw new CommandError(EXIT.usage, `no partial export ${path} to resume: ${advice}`);
    }
    if (!isResumed && state !== undefined) {
      const advice = 'go on with --resume, or remove it';
      throw new CommandError(EXIT.usage, `${path} is a partial export: ${advice}`);
    }
    if (state !== undefined) await refuseShorter(path, state.bytes);
    const handle = await open(path, isResumed ? 'r+' : 'w').catch((error: unknown) => {
      throw new CommandError(EXIT.failed, `${path} cannot be written: ${fileRefusal(error)}`);
    });
    await handle.truncate(state?.bytes ?? 0);
    return new PartialFile(path, handle, state);
  }

  get path(): string {
    return this.#path;
  }

  /** Undefined before the first part. */
  get state(): ExportState | undefined {
    return this.#state;
  }

  async add(bytes: Buffer, part: Omit<ExportState, 'bytes'>): Promise<void> {
    const start = this.#state?.bytes ?? 0;
    const state = { ...part, bytes: start + bytes.length };
    try {
      await this.#write(bytes, start);
      await this.#save(state);
    } catch (error) {
      const text = `${this.#path} cannot be written: ${fileRefusal(error)}`;
      throw new CommandError(EXIT.failed, text);
    }
    // Not before: a full disk may have room for the rows and none for the state.
    this.#state = state;
  }

  async #write(bytes: Buffer, start: number): Promise<void> {
    // One write may take only some of the bytes, such as the last ones that fit on the disk.
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#handle.write(bytes, done, undefined, start + done);
      done += bytesWritten;
    }
    await this.#handle.sync();
  }

  async #save(state: ExportState): Promise<void> {
    const draft = `${statePath(this.#path)}.tmp`;
    try {
      await writeFile(draft, JSON.stringify(state));
      await rename(draft, statePath(this.#path));
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/** Forgets how far the export is. The file of rows is removed if it is still there. */
export async function removePartial(output: string): Promise<void> {
  const path = pathOf(output);
  await rm(path, { force: true });
  await rm(statePath(path), { force: true });
}

/** Refuses a file that something else has cut or removed: a longer length would fill it with zeros. */
async function refuseShorter(path: string, bytes: number): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return { size: 0 };
    throw new CommandError(EXIT.failed, `${path} cannot be written: ${fileRefusal(error)}`);
  });
  if (found.size >= bytes) return;
  const why = `${path} has lost ${bytes - found.size} of the ${bytes} bytes exported so far`;
  const advice = `remove ${statePath(path)} and begin again without --resume`;
  throw new CommandError(EXIT.failed, `${why}: ${advice}`);
}

function pathOf(output: string): string {
  return `${output}.partial`;
}

function statePath(path: string): string {
  return `${path}.json`;
}

async function readState(path: string): Promise<ExportState | undefined> {
  try {
    return JSON.parse(await readFile(statePath(path), 'utf8')) as ExportState;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    const why = code === undefined ? 'remove it and begin again' : fileRefusal(error);
    throw new CommandError(EXIT.failed, `${statePath(path)} cannot be read: ${why}`);
  }
}
