import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET = 'control.sock';
/** Holds the socket's address when it could not stand in the data directory itself. */
const POINTER = 'control.address';
/** The shortest limit among the systems we run on (macOS); Linux takes 107. */
const MAX_PATH_BYTES = 103;

/**
 * Where the daemon of a data directory listens. A socket's path may hold about a hundred bytes: for a
 * longer one the socket moves to a private directory for temporary files, and a file in the data
 * directory says where it is.
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
    throw new Error(`no place for the control socket: both ${beside} and ${path} are too long`);
  }
  return pointAt(pointer, path);
}

/** Stands for the data directory of a daemon that has none; `name` tells such daemons apart. */
export function directoryInPlace(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return join(tmpdir(), privateName(), hash);
}

/** Makes that directory, for this user alone. */
export function makeDirectoryInPlace(name: string): string {
  privateDirectory();
  const directory = directoryInPlace(name);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}

/** Where a running daemon may be found; undefined when the directory has never had one. */
export function findSocketPath(dataDirectory: string): string | undefined {
  try {
    return readFileSync(join(dataDirectory, POINTER), 'utf8').trim();
  } catch {
    // There is no pointer: then the socket is in the directory itself.
  }
  try {
    const beside = join(realpathSync(dataDirectory), SOCKET);
    return Buffer.byteLength(beside) <= MAX_PATH_BYTES ? beside : undefined;
  } catch {
    return undefined;
  }
}

/** Takes the address back when the daemon stops. */
export function forgetSocketPath(dataDirectory: string): void {
  rmSync(join(dataDirectory, POINTER), { force: true });
}

function pointAt(pointer: string, address: string): string {
  writeFileSync(pointer, `${address}\n`, { mode: 0o600 });
  return address;
}

/** A directory for temporary files that nobody but this user can look into or replace. */
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
