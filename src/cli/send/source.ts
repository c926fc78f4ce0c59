import { constants, createReadStream } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pipeline, Readable, type Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { CommandError, EXIT } from '../exit-status.ts';
import type { Terminal } from '../terminal.ts';

/** One of the files to send, or stdin. */
export type Source = {
  /** As it was given. */
  readonly name: string;
  /** Bytes to read, compressed as they are; undefined where that is not known, as of a pipe. */
  readonly size: number | undefined;
  /** What is in it, without its compression. `onRead` is told of each chunk's bytes before that. */
  open(onRead: (bytes: number) => void): AsyncIterable<Buffer>;
};

const STDIN = '-';
/** Small enough for a bar that moves evenly over what is compressed well. */
const CHUNK_BYTES = 64 * 1024;

/** Looks at every file before anything is sent. Rejects with a `CommandError` where one cannot be read. */
export function sourcesOf(files: readonly string[], terminal: Terminal): Promise<Source[]> {
  if (files.filter((file) => file === STDIN).length > 1) {
    throw new CommandError(EXIT.usage, 'stdin (-) can be read once only');
  }
  return Promise.all(
    files.map((file) => (file === STDIN ? stdinSource(terminal) : fileSource(file, terminal.cwd))),
  );
}

function stdinSource({ input }: Terminal): Source {
  if (input === undefined) throw new CommandError(EXIT.usage, 'there is no stdin to read');
  return { name: 'stdin', size: undefined, open: (onRead) => inflated(input(), onRead) };
}

async function fileSource(name: string, cwd: string): Promise<Source> {
  const path = resolve(cwd, name);
  const stats = await stat(path).catch((error: unknown) => cannotBeRead(name, error));
  if (stats.isDirectory()) throw new CommandError(EXIT.failed, `${name} is a directory`);
  await access(path, constants.R_OK).catch((error: unknown) => cannotBeRead(name, error));
  return {
    name,
    size: stats.isFile() ? stats.size : undefined,
    open: (onRead) => inflated(createReadStream(path, { highWaterMark: CHUNK_BYTES }), onRead),
  };
}

function cannotBeRead(name: string, error: unknown): never {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'there is no such file' : (code ?? String(error));
  throw new CommandError(EXIT.failed, `${name} cannot be read: ${why}`);
}

/** The first bytes tell how it is compressed, whatever its name says. */
async function* inflated(
  stored: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const chunks = counted(stored, onRead);
  const head = await headOf(chunks);
  const decoder = decoderOf(head);
  if (decoder === undefined) {
    yield head;
    yield* chunks;
    return;
  }
  // Whatever breaks, or leaves early, closes both; what broke is thrown by the loop below.
  pipeline(Readable.from(joined(head, chunks)), decoder, () => {});
  for await (const chunk of decoder) yield chunk as Buffer;
}

async function* counted(
  stored: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const chunk of stored) {
    onRead(chunk.byteLength);
    yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  }
}

/** At least the bytes that tell the compression, where there are so many. */
async function headOf(chunks: AsyncGenerator<Buffer>): Promise<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  while (head.length < MAGIC_BYTES) {
    const { value, done } = await chunks.next();
    if (done === true) break;
    head = head.length === 0 ? value : Buffer.concat([head, value]);
  }
  return head;
}

async function* joined(head: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* rest;
}

const MAGIC_BYTES = 4;
const ZSTD_MAGIC = 0xfd2fb528;
/** Of frames that zstd skips, which some of its tools begin with. */
const ZSTD_SKIPPABLE = 0x184d2a50;

function decoderOf(head: Buffer): Transform | undefined {
  if (head.length < MAGIC_BYTES) return undefined;
  if (head[0] === 0x1f && head[1] === 0x8b) return createGunzip();
  const magic = head.readUInt32LE(0);
  const isZstd = magic === ZSTD_MAGIC || (magic & 0xfffffff0) === ZSTD_SKIPPABLE;
  return isZstd ? createZstdDecompress() : undefined;
}
