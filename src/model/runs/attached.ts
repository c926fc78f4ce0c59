/** Attachments of runs: parts of a multipart body, and the notes about them that the runs have as `attachments`. */
import { hash } from 'node:crypto';
import type {
  Attachment,
  AttachmentContent,
  AttachmentLimits,
  LeftOutCode,
} from '../attachments.ts';
import {
  attachmentType,
  isSha256,
  LEFT_OUT,
  MAX_ATTACHMENT_NAME,
  MAX_ATTACHMENTS,
} from '../attachments.ts';
import type { JsonIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import type { IgnoredValues } from '../ignored.ts';
import { numberIn } from '../json/details.ts';
import { OPEN_BRACE, QUOTE } from '../json/grammar.ts';
import type { Member } from '../json/read.ts';
import { findMembers, membersOf, startOf, stringIn, typeAt } from '../json/read.ts';
import { itemTexts } from '../json/texts.ts';
import { cutAt } from '../preview.ts';
import { Mark, type TextSteps, type TextVisitor } from '../texts.ts';
import { RUN, RUN_TEXTS } from './fields.ts';
import type { Part } from './multipart.ts';
import { contentTypeOf, MAX_PART_NAME } from './multipart.ts';

/** The member of a run in place of the bytes of an attachment: the hash of its content, or why it was left out. */
type Note = { readonly mime_type: string; readonly bytes: number } & (
  | { readonly sha256: string }
  | { readonly left_out: LeftOutCode }
);

/** The attachments of a request that are within its limits. */
export class Attached {
  readonly #body: Buffer;
  readonly #limits: AttachmentLimits | undefined;
  readonly contents: AttachmentContent[] = [];
  leftOut = 0;
  #bytes = 0;

  /** Without limits no attachment can be stored. */
  constructor(body: Buffer, limits: AttachmentLimits | undefined) {
    this.#body = body;
    this.#limits = limits;
  }

  /** The notes about the attachments of a run, by name, as JSON; `item` is the position of the run in the request. */
  notesOf(item: number, parts: ReadonlyMap<string, Part>): string {
    const notes: [string, Note][] = [];
    for (const [name, part] of parts) notes.push([name, this.#noteOf(item, notes.length, part)]);
    return JSON.stringify(Object.fromEntries(notes));
  }

  #noteOf(item: number, ofRun: number, part: Part): Note {
    const bytes = part.end - part.start;
    const contentType = attachmentType(contentTypeOf(this.#body, part));
    const described = { mime_type: contentType, bytes };
    const code = this.#excessOf(ofRun, bytes);
    if (code !== undefined) {
      this.leftOut++;
      return { ...described, left_out: code };
    }
    const content = this.#body.subarray(part.start, part.end);
    const sha256 = hash('sha256', content, 'hex');
    this.contents.push({ item, contentType, sha256, content });
    this.#bytes += bytes;
    return { ...described, sha256 };
  }

  /** `ofRun`: the attachments of the run before this one. */
  #excessOf(ofRun: number, bytes: number): LeftOutCode | undefined {
    const limits = this.#limits;
    if (limits === undefined) return 'no_store';
    const { maxBytes, perRun, perRequest, requestBytes } = limits;
    if (bytes > maxBytes || this.#bytes + bytes > requestBytes) return 'too_large';
    if (ofRun >= perRun || this.contents.length >= perRequest) return 'too_many';
    return undefined;
  }
}

/** The stored attachments of a run; the others are noted as ignored. Undefined without any. */
export function attachmentsOf(
  index: JsonIndex,
  position: number,
  ignored?: IgnoredValues,
): readonly Attachment[] | undefined {
  if (typeAt(index, position, RUN.attachments) !== 'object') return undefined;
  const { bytes } = index;
  const found = new Map<string, Attachment>();
  let place = -1;
  for (const member of membersOf(bytes, startOf(index, position, RUN.attachments))) {
    if (++place === MAX_ATTACHMENTS) break;
    const note = noteIn(bytes, member);
    if (note === undefined) ignored?.add('attachments', 'attachments');
    else if ('left_out' in note) ignored?.add(`attachments[${place}]`, LEFT_OUT[note.left_out]);
    else {
      const name = cutAt(member.key, MAX_ATTACHMENT_NAME);
      const { mime_type: contentType, bytes: size, sha256 } = note;
      // Two names may be equal once they are masked or cut.
      found.set(`${sha256}${name}`, { name, contentType, bytes: size, sha256 });
    }
  }
  return found.size === 0 ? undefined : [...found.values()];
}

/**
 * `FormatModule.texts` of a run. The type, the size and the hash in a note are not of the client, even below a name such as `token`:
 * without them its attachment is lost.
 */
export function* runTexts(index: JsonIndex, position: number, visitor: TextVisitor): TextSteps {
  if (typeAt(index, position, RUN.attachments) !== 'object') {
    yield* itemTexts(RUN_TEXTS, index, position, visitor);
    return;
  }
  const notes = yield* wholeNotes(index.bytes, startOf(index, position, RUN.attachments));
  const isInNote = (start: number) => notes.some((note) => note.start < start && start < note.end);
  const { marks, scalar } = visitor;
  yield* itemTexts(RUN_TEXTS, index, position, {
    ...visitor,
    text: (place) => {
      visitor.text(isInNote(place.start) ? { ...place, field: 'fixed', mark: Mark.NONE } : place);
    },
    ...(scalar && {
      scalar: (place) => {
        if (!isInNote(place.start)) scalar(place);
      },
    }),
    ...(marks && {
      marks: (start, end, isFixed) => marks(start, end, isFixed || isInNote(start)),
    }),
  });
}

/** Bytes of a note as a receiver writes it, and of its name, of which every character may be an escape. */
const MAX_NOTE_BYTES = 512;
const MAX_NOTE_NAME_BYTES = 6 * MAX_PART_NAME;

/**
 * The notes exactly as a receiver writes them, in the object at `start`. The walk reads nothing behind the longest notes: a client may
 * write a value of any length.
 */
function* wholeNotes(bytes: Buffer, start: number): Generator<undefined, readonly Member[]> {
  const notes: Member[] = [];
  const most = MAX_ATTACHMENTS * (MAX_NOTE_BYTES + MAX_NOTE_NAME_BYTES);
  const members = membersOf(bytes.subarray(0, start + most), start);
  for (let place = 0; place < MAX_ATTACHMENTS; place++) {
    const member = nextMember(members);
    if (member === undefined) break;
    if (isWholeNote(bytes, member)) notes.push(member);
    yield;
  }
  return notes;
}

/** Undefined if there is no further one, or the bytes end within it. */
function nextMember(members: Generator<Member, void>): Member | undefined {
  try {
    return members.next().value ?? undefined;
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

function isWholeNote(bytes: Buffer, member: Member): boolean {
  if (member.end - member.start > MAX_NOTE_BYTES) return false;
  const note = noteIn(bytes, member);
  return (
    note !== undefined && JSON.stringify(note) === bytes.toString('utf8', member.start, member.end)
  );
}

/**
 * The index with the bytes of the attachments of each run. To read the notes of a large body takes seconds, so a thread that scans a body
 * also calls this.
 */
export function withAttachmentBytes(index: JsonIndex): JsonIndex {
  const besideBytes = new Float64Array(index.count);
  for (let position = 0; position < index.count; position++) {
    besideBytes[position] = attachmentBytes(index, position);
  }
  return { ...index, besideBytes };
}

/** The bytes of the stored attachments of a run. */
export function attachmentBytes(index: JsonIndex, position: number): number {
  const known = index.besideBytes?.[position];
  if (known !== undefined) return known;
  let sum = 0;
  for (const { bytes } of attachmentsOf(index, position) ?? []) sum += bytes;
  return sum;
}

/** Undefined if a client wrote something else. */
function noteIn(bytes: Buffer, { start }: Member): Note | undefined {
  if (bytes[start] !== OPEN_BRACE) return undefined;
  const found = findMembers(bytes, start, ['mime_type', 'bytes', 'sha256', 'left_out']);
  const size = found.bytes === undefined ? undefined : numberIn(bytes, found.bytes);
  if (size === undefined || !Number.isSafeInteger(size) || size < 0) return undefined;
  const described = { mime_type: attachmentType(textIn(bytes, found.mime_type)), bytes: size };
  const code = textIn(bytes, found.left_out);
  if (isLeftOutCode(code)) return { ...described, left_out: code };
  const sha256 = textIn(bytes, found.sha256);
  return isSha256(sha256) ? { ...described, sha256 } : undefined;
}

/** Empty for a value that is no text. */
function textIn(bytes: Buffer, member: Member | undefined): string {
  if (member === undefined || bytes[member.start] !== QUOTE) return '';
  return stringIn(bytes, member.start, member.end);
}

function isLeftOutCode(code: string): code is LeftOutCode {
  return Object.hasOwn(LEFT_OUT, code);
}
