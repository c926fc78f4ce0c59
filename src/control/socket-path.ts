import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET = 'control.sock';
/** The file with the socket's path, if the path in the data directory is too long. */
const POINTER = 'control.address';
/** Longest path of a socket: the limit of macOS. Linux allows 107 bytes. */
const MAX_PATH_BYTES = 103;

/**
 * The path of the control socket of a data directory. A socket's path has at most about a hundred bytes. For a
 * longer path the socket moves to a private temporary directory, and a file in the data directory holds its
 * path.
 */
export function chooseSocketPath(dataDirectory: string): string {
  const pointer = join(dataDirectory, POINTER);
  rmSync(pointer, { force: true });
  const real = realpathSync(dataDirectory);
  const hash = createHash('sha256').update(real).digest('hex').slice(0, 16);
  if (process.platform === 'win32') return pointAt(pointer, `\\\\.\\pipe\\tracectl-${hash}`);
  const beside = join(real, SOCKET);
  if (Buffer.byteLength(beside) <= MAX_PATH_BYTES) return beside;
  const path = join(privateDirectory(), `${hash}.sock`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new Error(
      `the control socket cannot be created: ${beside} and ${path} are too long. Use a shorter TMPDIR`,
    );
  }
  return pointAt(pointer, path);
}

/** The control directory of a daemon without a data directory; `name` identifies the daemon. */
export function directoryInPlace(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return join(tmpdir(), privateName(), hash);
}

/** Creates that directory with mode 0700. */
export function makeDirectoryInPlace(name: string): string {
  privateDirectory();
  const directory = directoryInPlace(name);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}

/** The socket of a running daemon; undefined when no daemon has used the directory. */
export function findSocketPath(dataDirectory: string): string | undefined {
  try {
    return readFileSync(join(dataDirectory, POINTER), 'utf8').trim();
  } catch {
    // Without the file, the socket is in the directory itself.
  }
  try {
    const beside = join(realpathSync(dataDirectory), SOCKET);
    return Buffer.byteLength(beside) <= MAX_PATH_BYTES ? beside : undefined;
  } catch {
    return undefined;
  }
}

/** Removes the file with the path when the daemon stops. */
export function forgetSocketPath(dataDirectory: string): void {
  rmSync(join(dataDirectory, POINTER), { force: true });
}

function pointAt(pointer: string, address: string): string {
  writeFileSync(pointer, `${address}\n`, { mode: 0o600 });
  return address;
}

/** A temporary directory that only this user can read or replace. */
function privateDirectory(): string {
  const user = process.getuid?.() ?? 0;
  const directory = join(tmpdir(), privateName());
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const found = lstatSync(directory);
  if (!found.isDirectory() || found.uid !== user || (found.mode & 0o077) !== 0) {
    throw new Error(`${directory} is not a private directory of this user (mode 0700)`);
  }
  return directory;
}

function privateName(): string {
  return `tracectl-${process.getuid?.() ?? 0}`;
}
