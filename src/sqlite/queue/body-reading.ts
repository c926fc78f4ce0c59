import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { BatchRecord } from '../../queue/record.ts';
import { batchOf, MISSING_BODY, RECORD, RECORD_COLUMNS } from '../../queue/record.ts';
import { errcodeOf, isDamage } from '../result-code.ts';
import { tuples } from '../rows.ts';
import { partReader } from './part-operations.ts';

/** A batch that was read: its record, or why it cannot be used. */
export type ReadBody = { readonly record: BatchRecord } | { readonly damage: string };

/** Returns a function that reads a batch, with its body from the parts if it is large, and checks it. */
export function bodyReader(db: DatabaseSync): (seq: number) => ReadBody {
  const find = tuples<[crc: number, ...record: BatchRecord]>(
    db,
    `SELECT crc, ${RECORD_COLUMNS} FROM raw_batches WHERE seq = ?`,
  );
  const inParts = partReader(db);
  return (seq) => {
    try {
      const row = find.get(seq);
      if (row === undefined) return { damage: MISSING_BODY };
      const [crc, ...record] = row;
      if (record[RECORD.BODY].byteLength === 0) {
        record[RECORD.BODY] = inParts(seq) ?? record[RECORD.BODY];
      }
      if (crc32(record[RECORD.BODY]) !== crc) return { damage: 'its checksum does not fit' };
      batchOf(record);
      return { record };
    } catch (error) {
      // A read that failed for another reason (memory, the disk) may succeed the next time.
      const errcode = errcodeOf(error);
      if (errcode !== undefined && !isDamage(errcode)) throw error;
      return { damage: error instanceof Error ? error.message : String(error) };
    }
  };
}
