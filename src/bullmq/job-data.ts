import { z } from 'zod';
import type { SealedBatch } from '../model/batch.ts';
import { batchOf, recordOf } from '../queue/record.ts';

/** The data of a job whose batches are in a store. */
export type JobPointer = {
  readonly batch: string;
  /**
   * Batches that were accepted together with `batch`. Workers of versions without this field read only `batch`; the sweeper
   * of the gateways then announces the other batches again.
   */
  readonly more?: readonly string[];
};

/** The data of a job that holds its batch: the fields of `recordOf` without the body, and the body in base64. */
export type JobPayload = {
  readonly record: readonly unknown[];
  readonly body: string;
  /** The only branches that get the batch, in a replayed dead letter; without it every branch gets the batch. */
  readonly branches?: readonly string[];
};

export type JobData = JobPointer | JobPayload;

export function jobPayload(batch: SealedBatch): JobPayload {
  const record = recordOf(batch);
  return { record: record.slice(0, -1), body: batch.body.toString('base64') };
}

/** The list in Redis keeps this order in all versions. */
const recordFields = z.tuple([
  z.string(), // id
  z.string(), // organization
  z.string(), // project
  z.string(), // key
  z.int(), // permissions
  z.int(), // format
  z.int(), // encoding
  z.number(), // receivedAt
  z.int(), // requestItems
  z.int(), // items
  z.int(), // usage: events
  z.int(), // usage: bytes
  z.string().nullable(), // positions
  z.string().nullable(), // rejections
]);
const PROJECT = 2;
const ITEMS = 9;

const payload = z.object({ record: recordFields, body: z.string() });
const list = z.object({ record: z.array(z.unknown()) });
const branches = z.object({ branches: z.array(z.coerce.string()) });
const pointer = z.object({ batch: z.string(), more: z.array(z.string()).optional() });

/** Undefined if the data is damaged or not from `jobPayload`. */
export function batchIn(data: unknown): SealedBatch | undefined {
  const { data: found } = payload.safeParse(data);
  if (found === undefined) return undefined;
  try {
    return batchOf([...found.record, Buffer.from(found.body, 'base64')]);
  } catch {
    return undefined;
  }
}

/** Undefined if every branch gets the batch. */
export function branchesIn(data: unknown): readonly string[] | undefined {
  return branches.safeParse(data).data?.branches;
}

/** Undefined if the data is no payload. Reads damaged payloads too, so that those of a deleted project are removed. */
export function projectIn(data: unknown): string | undefined {
  const project = listIn(data)?.[PROJECT];
  return typeof project === 'string' ? project : undefined;
}

/** The number of items of a payload's batch; 0 if the data is no payload. */
export function itemsIn(data: unknown): number {
  const items = listIn(data)?.[ITEMS];
  return typeof items === 'number' ? items : 0;
}

function listIn(data: unknown): readonly unknown[] | undefined {
  return list.safeParse(data).data?.record;
}

export function pointerTo([batch, ...more]: readonly [string, ...string[]]): JobPointer {
  return more.length === 0 ? { batch } : { batch, more };
}

/** The ids of the batches that the job points to; none if the data is no pointer. */
export function pointersIn(data: unknown): readonly string[] {
  const { data: found } = pointer.safeParse(data);
  return found === undefined ? [] : [found.batch, ...(found.more ?? [])];
}
