import { RetryableError, StoreError } from '../../../src/model/errors.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type {
  AttachmentStore,
  AttachmentSweep,
  NewAttachment,
} from '../../../src/store/attachments.ts';
import { PIECE_BYTES } from '../../../src/store/attachments.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';
import type { ContentName, RefName } from './operations.ts';

type StoreDatabase = Database<StoreOperations>;

export function sqliteAttachments(database: StoreDatabase, retention: Retention): AttachmentStore {
  return {
    async put(projectId, batchId, contents) {
      const put = new Put(database, projectId, batchId);
      for (const group of groupsOf(contents)) await put.add(group);
    },
    release: (batchId, contents) =>
      database.write('attachments.release', [batchId, contents ?? null]),
    async find(project, sha256) {
      const scope = { project, since: retention.since(project) };
      return (await database.read('attachments.find', [scope, sha256])) ?? undefined;
    },
    async read(project, sha256, piece) {
      const bytes = await database.search('attachments.piece', [project, sha256, piece]);
      return bytes === null
        ? undefined
        : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
  };
}

/** Contents that are written together: at most a piece of bytes, so that other requests wait for no more. */
function groupsOf(contents: readonly NewAttachment[]): NewAttachment[][] {
  const groups: NewAttachment[][] = [];
  let room = 0;
  for (const one of contents) {
    if (one.content.length > room || groups.length === 0) {
      groups.push([]);
      room = PIECE_BYTES;
    }
    groups.at(-1)?.push(one);
    room -= one.content.length;
  }
  return groups;
}

class Put {
  readonly #database: StoreDatabase;
  readonly #project: string;
  readonly #batch: string;

  constructor(database: StoreDatabase, project: string, batch: string) {
    this.#database = database;
    this.#project = project;
    this.#batch = batch;
  }

  async add(contents: readonly NewAttachment[]): Promise<void> {
    const held = contents.map(({ sha256, contentType, content }) => ({
      sha256: new Uint8Array(sha256),
      ...{ contentType, bytes: content.length },
      whole: content.length > PIECE_BYTES ? null : new Uint8Array(content),
    }));
    const weight = held.reduce((sum, { whole }) => sum + (whole?.byteLength ?? 0), 0);
    const stored = await this.#database.write(
      'attachments.hold',
      [this.#project, this.#batch, held],
      { weight },
    );
    if (stored === null) throw new StoreError('unknown_project', 'the project was deleted');
    for (const [i, one] of contents.entries()) {
      if (stored[i] !== true) await this.#addPieces(one);
    }
  }

  async #addPieces({ sha256, content }: NewAttachment): Promise<void> {
    let isComplete = false;
    for (let at = 0; at < content.length && !isComplete; at += PIECE_BYTES) {
      const bytes = new Uint8Array(content.subarray(at, at + PIECE_BYTES));
      const args = [this.#project, sha256, at / PIECE_BYTES, [bytes]] as const;
      const options = { weight: bytes.byteLength, moved: bytes.buffer };
      isComplete = await this.#database.write('attachments.addPiece', [...args], options);
    }
    if (isComplete) return;
    throw new RetryableError('storage_failed', 'An attachment could not be stored. Try again.');
  }
}

/** `of`: the only project to sweep. */
export function sqliteAttachmentSweep(
  database: StoreDatabase,
  of: string | null = null,
): AttachmentSweep {
  let ref: RefName | null = null;
  let content: ContentName | null = null;
  return {
    removeHolds: (before) => database.write('attachments.removeHolds', [before]),
    async removeRefs() {
      const { found, next } = await database.search('attachments.goneRefs', [of, ref]);
      if (found.length > 0) await database.write('attachments.removeRefs', [found]);
      ref = next;
      return next !== null;
    },
    async removeContents() {
      const { found, next } = await database.search('attachments.free', [of, content]);
      for (const { project, sha256 } of found) {
        while (await database.write('attachments.remove', [project, sha256]));
      }
      content = next;
      return next !== null;
    },
  };
}
