import type { SealedBatch } from '../model/batch.ts';
import type { BatchRecord } from '../queue/record.ts';
import { batchOf, recordOf } from '../queue/record.ts';

/** A job whose batch is in a store: where to find it. */
export type Pointer = { readonly batch: string };

/** A job that is its batch: as `recordOf` lists it, the body in base64. */
export type Payload = {
  readonly record: readonly unknown[];
  readonly body: string;
  /** The branches that are to have it, where not all are: a dead letter that is tried again. */
  readonly branches?: readonly string[];
};

export type JobData = Pointer | Payload;

export function payloadOf(batch: SealedBatch): Payload {
  const record = recordOf(batch);
  return { record: record.slice(0, -1), body: batch.body.toString('base64') };
}

/** The inverse; undefined where it is none, which is damage, or somebody else's job. */
export function batchIn(data: unknown): SealedBatch | undefined {
  if (!isObject(data) || !Array.isArray(data.record) || typeof data.body !== 'string') {
    return undefined;
  }
  try {
    const record = [...data.record, Buffer.from(data.body, 'base64')];
    return batchOf(record as unknown as BatchRecord);
  } catch {
    return undefined;
  }
}

/** Undefined where all branches are to have it. */
export function branchesIn(data: unknown): readonly string[] | undefined {
  const branches = isObject(data) ? data.branches : undefined;
  return Array.isArray(branches) ? branches.map(String) : undefined;
}

/** The project of a payload's batch; undefined where it is none. */
export function projectIn(data: unknown): string | undefined {
  const record = isObject(data) ? data.record : undefined;
  const project = Array.isArray(record) ? record[2] : undefined;
  return typeof project === 'string' ? project : undefined;
}

export function pointerIn(data: unknown): string | undefined {
  const batch = isObject(data) ? data.batch : undefined;
  return typeof batch === 'string' ? batch : undefined;
}

function isObject(data: unknown): data is Record<string, unknown> {
  return typeof data === 'object' && data !== null;
}
