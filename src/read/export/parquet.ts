import { createThread, threadFile } from '../../thread/thread.ts';
import type { ExportColumn, RowMembers } from './columns.ts';
import { charactersOf, columnValue } from './columns.ts';
import type { Encoder, Piece } from './encoder.ts';

/** A request to the thread: it begins a file, adds rows by column, or ends the file. */
export type ParquetRequest =
  | { readonly type: 'begin'; readonly columns: readonly ExportColumn[] }
  | { readonly type: 'rows'; readonly values: readonly (readonly unknown[])[] }
  | { readonly type: 'end' };

/** Rows that go to the thread together. */
const SLICE_ROWS = 250;
/** The thread has the file: it may not end while a client is slow. The longest time of a timer. */
const NEVER_MS = 2 ** 31 - 1;
/** Characters after which rows go to the thread. */
const SLICE_CHARACTERS = 1_048_576;

/**
 * A Parquet file, made in a thread: a group of rows takes tens of milliseconds. The thread holds one group; its bytes
 * come back when it is full.
 */
export function parquetFile<Row>(
  columns: readonly ExportColumn[],
  membersOf: (row: Row, payloads: Readonly<Record<string, string>> | undefined) => RowMembers,
): Encoder<Row> {
  const thread = createThread<ParquetRequest, Uint8Array>(
    threadFile(import.meta.url, 'parquet-thread'),
    NEVER_MS,
  );
  const begun = thread.ask({ type: 'begin', columns });
  // Its failure is that of the next request, too.
  begun.catch(() => {});
  let values: unknown[][] = columns.map(() => []);
  let rows = 0;
  let characters = 0;
  /** In the thread. */
  let sent = 0;

  async function send(): Promise<Piece> {
    const slice = values;
    values = columns.map(() => []);
    rows = 0;
    sent += characters;
    characters = 0;
    await begun;
    const piece = await thread.ask({ type: 'rows', values: slice });
    if (piece.length > 0) sent = 0;
    return piece;
  }

  return {
    begin: () => '',
    row(row, payloads) {
      const members = membersOf(row, payloads);
      for (const [i, column] of columns.entries()) {
        const value = columnValue(column, members);
        const text = column.type === 'json' && typeof value === 'object' ? jsonText(value) : value;
        characters += charactersOf(text);
        values[i]?.push(text);
      }
      rows++;
      return rows >= SLICE_ROWS || characters >= SLICE_CHARACTERS ? send() : '';
    },
    async end() {
      const last = rows === 0 ? '' : await send();
      const end = await begun.then(() => thread.ask({ type: 'end' }));
      return Buffer.concat([Buffer.from(last), end]);
    },
    get waiting() {
      return sent + characters;
    },
    close: () => thread.close(),
  };
}

function jsonText(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}
