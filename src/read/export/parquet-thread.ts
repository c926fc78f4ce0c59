import type { SchemaElement } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { parseInstant } from '../../model/instant.ts';
import { answerRequests } from '../../thread/thread.ts';
import type { ColumnType, ExportColumn } from './columns.ts';
import { charactersOf } from './columns.ts';
import type { ParquetRequest } from './parquet.ts';

/** A group of rows is written when it has this many rows, or this many characters. */
const GROUP_ROWS = 10_000;
const GROUP_CHARACTERS = 16 * 1_048_576;

/** One Parquet file, of which the caller takes the bytes as they come. */
class ParquetFile {
  readonly #writer = new StreamedBytes();
  readonly #columns: readonly ExportColumn[];
  readonly #parquet: ParquetWriter;
  #values: unknown[][];
  #characters = 0;

  constructor(columns: readonly ExportColumn[]) {
    this.#columns = columns;
    this.#values = columns.map(() => []);
    this.#parquet = new ParquetWriter({
      writer: this.#writer,
      schema: [{ name: 'root', num_children: columns.length }, ...columns.flatMap(schemaOf)],
      createdBy: 'tracectl',
    });
  }

  /** The bytes of all rows so far; empty if some of them wait for the end of their group. */
  add(values: readonly (readonly unknown[])[]): Uint8Array<ArrayBuffer> {
    for (const [i, column] of this.#columns.entries()) {
      const target = this.#values[i];
      for (const value of values[i] ?? []) {
        this.#characters += charactersOf(value);
        target?.push(STORED[column.type](value));
      }
    }
    const rows = this.#values[0]?.length ?? 0;
    if (rows < GROUP_ROWS && this.#characters < GROUP_CHARACTERS) return new Uint8Array();
    this.#writeGroup();
    return this.#writer.take();
  }

  end(): Uint8Array<ArrayBuffer> {
    this.#writeGroup();
    void this.#parquet.finish();
    return this.#writer.take();
  }

  #writeGroup(): void {
    const rows = this.#values[0]?.length ?? 0;
    if (rows === 0) return;
    const columnData = this.#columns.map(({ name }, i) => ({ name, data: this.#values[i] ?? [] }));
    void this.#parquet.write({ columnData, rowGroupSize: rows });
    this.#values = this.#columns.map(() => []);
    this.#characters = 0;
  }
}

/** Gives its bytes away, and counts on. */
class StreamedBytes extends ByteWriter {
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.getBytes().slice();
    this.index = 0;
    return bytes;
  }
}

/** The values of a type in the form that the writer takes; a value that the type does not have is null. */
const STORED: Readonly<Record<ColumnType, (value: unknown) => unknown>> = {
  text: (value) => (value === null ? null : String(value)),
  json: (value) => (value === null ? null : String(value)),
  texts: (value) => (Array.isArray(value) ? value : null),
  boolean: (value) => value,
  number: (value) => value,
  integer: (value) => (Number.isInteger(value) ? int64Of(Number(value)) : null),
  time(value) {
    const instant = typeof value === 'string' ? parseInstant(value) : undefined;
    if (instant === undefined) return null;
    return BigInt(instant.ms) * 1000n + BigInt(Math.floor(instant.ns / 1000));
  },
};

/** Sums of many calls may exceed the safe integers. */
function int64Of(value: number): bigint | null {
  return Math.abs(value) < 2 ** 63 ? BigInt(value) : null;
}

const TEXT = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
const TYPES = {
  text: TEXT,
  json: TEXT,
  time: { type: 'INT64', converted_type: 'TIMESTAMP_MICROS' },
  number: { type: 'DOUBLE' },
  integer: { type: 'INT64' },
  boolean: { type: 'BOOLEAN' },
} as const;

function schemaOf({ name, type }: ExportColumn): SchemaElement[] {
  const repetition_type = 'OPTIONAL';
  if (type !== 'texts') return [{ name, repetition_type, ...TYPES[type] }];
  return [
    { name, repetition_type, num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', repetition_type, ...TEXT },
  ];
}

let file: ParquetFile | undefined;

answerRequests<ParquetRequest, Uint8Array>((request) => {
  if (request.type === 'begin') file = new ParquetFile(request.columns);
  if (file === undefined) throw new Error('no file has begun');
  const reply =
    request.type === 'rows'
      ? file.add(request.values)
      : request.type === 'end'
        ? file.end()
        : new Uint8Array();
  return { reply, transfer: [reply.buffer] };
});
