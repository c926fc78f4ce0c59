import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { Writable } from 'node:stream';
import type { RowMembers } from '../../read/export/columns.ts';
import { parquetFile } from '../../read/export/parquet.ts';
import type { ExportRequest } from '../../read/export/request.ts';
import { splitLines } from '../send/lines.ts';

/** The description of a complete export, in `FILE.manifest.json`. */
export type Manifest = {
  readonly file: string;
  readonly complete: true;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly project: string;
  readonly query: string;
  readonly format: string;
  readonly of: string;
  readonly payloads: boolean;
  /** The range of start times that was asked for; null without a bound. */
  readonly from: string | null;
  readonly to: string | null;
  readonly exported_at: string;
};

/** Makes a Parquet file of JSON lines. */
export async function writeParquet(
  lines: string,
  draft: string,
  { columns }: ExportRequest,
): Promise<void> {
  const encoder = parquetFile<RowMembers>(columns, (row) => row);
  const file = Writable.toWeb(createWriteStream(draft)).getWriter();
  try {
    // The readline module also splits at U+2028, which texts in JSON may have.
    for await (const { bytes } of splitLines(createReadStream(lines), Number.POSITIVE_INFINITY)) {
      const piece = await encoder.row(JSON.parse(`${bytes}`) as RowMembers, undefined);
      if (piece.length > 0) await file.write(piece);
    }
    await file.write(await encoder.end());
    await file.close();
  } catch (error) {
    await file.abort().catch(() => {});
    await rm(draft, { force: true });
    throw error;
  } finally {
    await encoder.close();
  }
}

/** Writes the description of a complete file beside it. It gets its name when the file has its own. */
export async function draftManifest(
  output: string,
  content: string,
  about: Omit<Manifest, 'bytes' | 'sha256'>,
): Promise<Manifest> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(content)) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  const manifest = { ...about, bytes, sha256: hash.digest('hex') };
  const draft = draftOf(output);
  await writeFile(draft, `${JSON.stringify(manifest, null, 2)}\n`);
  const handle = await open(draft, 'r');
  await handle.sync();
  await handle.close();
  return manifest;
}

/** The description of a file that has its name, if a crash left the description without one. */
export async function draftedManifest(output: string): Promise<Manifest | undefined> {
  try {
    const manifest = JSON.parse(await readFile(draftOf(output), 'utf8')) as Manifest;
    return manifest.bytes === (await stat(output)).size ? manifest : undefined;
  } catch {
    return undefined;
  }
}

export async function nameManifest(output: string): Promise<void> {
  await rename(draftOf(output), `${output}.manifest.json`);
}

function draftOf(output: string): string {
  return `${output}.manifest.json.tmp`;
}
