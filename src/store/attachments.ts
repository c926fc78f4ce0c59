import type { Steps } from '../component/background.ts';
import type { ObservationBatch } from '../model/batch.ts';
import { encodeTime } from '../model/ulid.ts';
import type { Key } from './rows/observation-row.ts';
import { keyOfId } from './rows/observation-row.ts';

/** The size of a stored piece of an attachment. */
export const PIECE_BYTES = 1024 * 1024;

/** The bytes of an attachment that is to be stored. */
export type NewAttachment = {
  readonly sha256: Buffer;
  readonly contentType: string;
  readonly content: Buffer;
};

/** A stored attachment. The content type is that of the first upload of the bytes. */
type StoredAttachment = { readonly bytes: number; readonly contentType: string };

/**
 * The bytes of attachments, each once for a project. A content is held by the batch that brought it, as long as the batch waits or is a dead
 * letter, until its observations are written, and from then on by those that refer to it. A content that nothing holds is removed in the background.
 */
export type AttachmentStore = {
  /** Resolves when the contents are durable. Rejects with `StoreError('unknown_project')` if the project was deleted. */
  put(projectId: string, batchId: string, contents: readonly NewAttachment[]): Promise<void>;
  /** The batch holds its contents, or some of them, no longer: it was not accepted, or items of it are not stored. */
  release(batchId: string, contents?: readonly Buffer[]): Promise<void>;
  /** Undefined unless an observation of the project refers to it. */
  find(projectId: string, sha256: Buffer): Promise<StoredAttachment | undefined>;
  /** The piece of `PIECE_BYTES` at a position; undefined if the content is gone. */
  read(projectId: string, sha256: Buffer, piece: number): Promise<Buffer | undefined>;
};

/** How long a batch that the store does not have holds its contents: it may wait in a queue elsewhere. */
const HELD_MS = 30 * 86_400_000;

/** The reference of an observation to a content. */
export type AttachmentRef = readonly [observation: Key, sha256: Uint8Array];

/** The references of runs. An observation of another format has no attachments. */
export function attachmentRefs(observations: ObservationBatch['observations']): AttachmentRef[] {
  const refs: AttachmentRef[] = [];
  for (const { id, details } of observations) {
    for (const { sha256 } of details?.attachments ?? []) {
      refs.push([keyOfId(id), Buffer.from(sha256, 'hex')]);
    }
  }
  return refs;
}

/** The contents that only observations have that are left out of a batch. */
export function contentsLeftOut(
  all: ObservationBatch['observations'],
  left: ObservationBatch['observations'],
): readonly Buffer[] {
  const kept = hashesOf(left);
  return [...hashesOf(all)].filter((one) => !kept.has(one)).map((one) => Buffer.from(one, 'hex'));
}

function hashesOf(observations: ObservationBatch['observations']): ReadonlySet<string> {
  return new Set(
    observations.flatMap(({ details }) => (details?.attachments ?? []).map(({ sha256 }) => sha256)),
  );
}

/** The steps of removing contents that nothing holds. `project`: all by default. */
export type AttachmentSweep = {
  /** Removes the holds of batches below an id that the store does not have. Resolves with whether there may be more. */
  removeHolds(beforeBatch: string): Promise<boolean>;
  /** Removes the references, of a page, of observations that are gone. Resolves with whether there are more pages. */
  removeRefs(): Promise<boolean>;
  /** Removes contents, of a page, or pieces of one. Resolves with whether there may be more. */
  removeContents(): Promise<boolean>;
};

/** Removes the contents that nothing holds, in bounded steps. Without a time, which a wrong clock may have, every hold stays. */
export async function* sweepAttachments(sweep: AttachmentSweep, now: number | null): Steps {
  if (now !== null) {
    const before = encodeTime(Math.max(0, now - HELD_MS));
    while (await sweep.removeHolds(before)) yield;
  }
  while (await sweep.removeRefs()) yield;
  while (await sweep.removeContents()) yield;
}
