import type { AttachmentContent, AttachmentLimits } from '../attachments.ts';
import type { JsonIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import type { ScanLimits } from '../format-module.ts';
import { COMMON } from '../json/fields.ts';
import { CLOSE_BRACE, MAX_JSON_DEPTH, OPEN_BRACE } from '../json/grammar.ts';
import { compilePattern, nodeFor } from '../json/pattern.ts';
import { endOf, itemRange, startOf } from '../json/read.ts';
import { checkJson } from '../json/scan.ts';
import type { RejectionCode } from '../rejection.ts';
import { Attached } from './attached.ts';
import { runs as runsFormat } from './format.ts';
import type { Part, ViewedBody } from './multipart.ts';
import { areSame, partsOf, viewedBody } from './multipart.ts';
import { isSpace, lastVisible } from './wrap.ts';

/** An item that has to be rejected, because one of its parts cannot be read. */
type ItemFault = {
  /** The position of the item in the batch. */
  readonly item: number;
  readonly code: RejectionCode;
  readonly reason: string;
  readonly path?: string;
};

/** A batch of runs, put together from the parts of a multipart body. */
export type AssembledRuns = {
  /** `{"post":[…],"patch":[…]}`. */
  readonly body: Buffer;
  readonly index: JsonIndex;
  readonly faults: readonly ItemFault[];
  /** The attachments of runs, to be stored with them. */
  readonly attachments: readonly AttachmentContent[];
  /** Feedback as JSON, with the ids that the parts name. */
  readonly feedback: readonly FeedbackPart[];
  /** Attachments beyond a limit or without a run, and parts with another meaning. */
  readonly leftOut: LeftOutParts;
};

/** The part of one feedback. */
export type FeedbackPart = { readonly id: string; readonly json: Buffer };

type LeftOutParts = { readonly attachments: number; readonly others: number };

type Verb = 'post' | 'patch';

type Draft = {
  /** The name of the part of the run itself, `post.ID` or `patch.ID`. */
  readonly name: string;
  run: Part | undefined;
  /** In the order in which their names came first. */
  readonly fields: FieldPart[];
  /** By name; undefined without any. */
  attachments: Map<string, Part> | undefined;
  /** The member `attachments` of the run; undefined without any. */
  notes: string | undefined;
};

/** A part of one of `FIELDS`. */
type FieldPart = { readonly field: Field; part: Part };

/** A member of a run that has a part of its own, and its slot in the index; undefined for one that has none. */
type Field = {
  readonly name: string;
  readonly slot: number | undefined;
  /** The key with its colon, behind another member. */
  readonly token: Uint8Array;
};

const FIELDS: readonly Field[] = [
  fieldOf('inputs', COMMON.inputs),
  fieldOf('outputs', COMMON.outputs),
  fieldOf('events', COMMON.events),
  fieldOf('extra', COMMON.extra),
  fieldOf('error', COMMON.error),
  fieldOf('serialized', undefined),
];

const FIELD_KEYS = compilePattern(
  FIELDS.map(({ name }) => name),
  [],
).root;

function fieldOf(name: string, slot: number | undefined): Field {
  return { name, slot, token: Buffer.from(`,"${name}":`) };
}

/**
 * The batch of a request of LangSmith's clients to `/runs/multipart`:
 *
 *   post.ID, patch.ID        the run, without large fields
 *   post.ID.inputs, …        a field of it, as JSON
 *   attachment.ID.NAME       bytes
 *   feedback.ID              JSON
 *
 * A part that is no JSON costs its run, not the batch. Without `attachmentLimits` attachments are left out. Throws a `Refusal` if the body
 * is no multipart body.
 */
export function assembleRuns(
  body: Buffer,
  boundary: string,
  limits: ScanLimits,
  attachmentLimits?: AttachmentLimits,
): AssembledRuns {
  const runs: Runs = { post: [], patch: [] };
  const newest = new Map<string, Draft>();
  const attachments: Part[] = [];
  const feedback: FeedbackPart[] = [];
  let lone = 0;
  let others = 0;
  let latest: Draft | undefined;
  const bytes = viewedBody(body);
  for (const part of partsOf(body, boundary)) {
    const following = latest === undefined ? undefined : fieldBehind(bytes, latest, part);
    if (latest !== undefined && following !== undefined) {
      setField(latest, following, part);
      continue;
    }
    const named = runPart(part.name);
    if (named === undefined) {
      if (part.name.startsWith(ATTACHMENT)) attachments.push(part);
      else if (part.name.startsWith(FEEDBACK)) {
        const id = part.name.slice(FEEDBACK.length);
        feedback.push({ id, json: body.subarray(part.start, part.end) });
      } else others++;
      continue;
    }
    const { run, field } = named;
    const known = newest.get(run);
    // A second part of the run itself begins another item with the id.
    const isNew = known === undefined || (field === undefined && known.run !== undefined);
    const draft = isNew ? newDraft(run) : known;
    if (isNew) {
      runs[run.startsWith(POST) ? 'post' : 'patch'].push(draft);
      newest.set(run, draft);
    }
    if (field === undefined) draft.run = part;
    else setField(draft, field, part);
    latest = draft;
  }
  for (const part of attachments) if (!attach(newest, part)) lone++;
  const attached = new Attached(body, attachmentLimits);
  for (const [item, draft] of [...runs.post, ...runs.patch].entries()) {
    if (draft.attachments !== undefined) draft.notes = attached.notesOf(item, draft.attachments);
  }
  return {
    ...(scannedAsWritten(body, runs, limits) ?? scannedInParts(body, runs, limits)),
    attachments: attached.contents,
    feedback,
    leftOut: { attachments: attached.leftOut + lone, others },
  };
}

const POST = 'post.';
const PATCH = 'patch.';
const ATTACHMENT = 'attachment.';
const FEEDBACK = 'feedback.';

function newDraft(name: string): Draft {
  return { name, run: undefined, fields: [], attachments: undefined, notes: undefined };
}

/** The last part of a field counts. */
function setField({ fields }: Draft, field: Field, part: Part): void {
  const known = fields.find((one) => one.field === field);
  if (known === undefined) fields.push({ field, part });
  else known.part = part;
}

/**
 * Hot path: the field of the latest run that a part has, found in the bytes of its name. Clients send the fields of a run behind it. Undefined for
 * any other part, and for a name that is not plain.
 */
function fieldBehind(bytes: ViewedBody, { run }: Draft, part: Part): Field | undefined {
  if (run === undefined || run.nameEnd === 0 || part.nameEnd === 0) return undefined;
  const length = run.nameEnd - run.nameStart;
  const end = part.nameStart + length;
  if (bytes.body[end] !== DOT || end >= part.nameEnd) return undefined;
  if (!areSame(bytes, run.nameStart, part.nameStart, length)) return undefined;
  const node = nodeFor(FIELD_KEYS, bytes.body, end + 1, part.nameEnd);
  return node === undefined ? undefined : FIELDS[node.slot];
}

const DOT = 0x2e;

/** Returns whether the request has the run of the attachment. */
function attach(newest: ReadonlyMap<string, Draft>, part: Part): boolean {
  const [id = '', ...name] = part.name.slice(ATTACHMENT.length).split('.');
  const draft = newest.get(POST + id) ?? newest.get(PATCH + id);
  if (draft === undefined) return false;
  draft.attachments ??= new Map();
  draft.attachments.set(name.join('.'), part);
  return true;
}

/** The name of the part of the run itself, `post.ID`, and the field of it, if the part is one. */
function runPart(name: string): { run: string; field: Field | undefined } | undefined {
  if (!name.startsWith(POST) && !name.startsWith(PATCH)) return undefined;
  const dot = name.lastIndexOf('.');
  const behind = dot === name.indexOf('.') ? '' : name.slice(dot + 1);
  const field = FIELDS.find((one) => one.name === behind);
  return { run: field === undefined ? name : name.slice(0, dot), field };
}

type Runs = Record<Verb, Draft[]>;

/** A batch as it was written: the places that a scan of it has to find. */
type WrittenBatch = {
  readonly body: Buffer;
  /** Start and end of each item. */
  readonly items: readonly number[];
  /** Of each field with a part: item, slot, start and end. */
  readonly fields: readonly number[];
};

/**
 * Hot path: checking each part costs as much as the scan of the batch. So the parts are written unchecked, and the scan has to find
 * every item and every field exactly where it was written: else a part completes or ends the JSON around it. Undefined if it does not.
 */
function scannedAsWritten(body: Buffer, runs: Runs, limits: ScanLimits) {
  const written = writeUnchecked(body, runs);
  if (written === undefined) return undefined;
  try {
    const index = runsFormat.scan(written.body, limits);
    return isAsWritten(index, written) ? { body: written.body, index, faults: [] } : undefined;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid_json') return undefined;
    throw error;
  }
}

function isAsWritten(index: JsonIndex, { items, fields }: WrittenBatch): boolean {
  if (index.count * 2 !== items.length) return false;
  for (let item = 0; item < index.count; item++) {
    const [start, end] = itemRange(index, item);
    if (start !== items[2 * item] || end !== items[2 * item + 1]) return false;
  }
  for (let at = 0; at < fields.length; at += 4) {
    const item = fields[at] ?? 0;
    const slot = fields[at + 1] ?? 0;
    if (startOf(index, item, slot) !== fields[at + 2]) return false;
    if (endOf(index, item, slot) !== fields[at + 3]) return false;
  }
  return true;
}

/** Undefined if a part cannot be one of a valid batch. */
function writeUnchecked(body: Buffer, { post, patch }: Runs): WrittenBatch | undefined {
  const out = new BatchWriter(body, sizeOf({ post, patch }));
  const items: number[] = [];
  const fields: number[] = [];
  const write = (drafts: readonly Draft[]): boolean =>
    drafts.every((draft, i) => {
      const { run } = draft;
      if (run === undefined || !isWhole(body, draft)) return false;
      if (i > 0) out.ascii(',');
      const item = items.length / 2;
      items.push(out.length);
      out.run(draft, run, (slot, start, end) => fields.push(item, slot, start, end));
      items.push(out.length);
      return true;
    });
  out.text(BEFORE_POST);
  if (!write(post)) return undefined;
  out.text(BEFORE_PATCH);
  if (!write(patch)) return undefined;
  out.text(AFTER_PATCH);
  return { body: out.bytes(), items, fields };
}

/** Looks at the ends of the parts only, and checks those that a scan does not find. */
function isWhole(body: Buffer, { run, fields }: Draft): boolean {
  if (run === undefined || body[firstVisible(body, run)] !== OPEN_BRACE) return false;
  if (body[lastVisible(body, run.end)] !== CLOSE_BRACE) return false;
  for (const { field, part } of fields) {
    if (firstVisible(body, part) === part.end) return false;
    if (field.slot === undefined && !isJson(body, part, MAX_JSON_DEPTH - 1)) return false;
  }
  return true;
}

/** Each part is checked on its own, and an item with a bad one is rejected. */
function scannedInParts(body: Buffer, { post, patch }: Runs, limits: ScanLimits) {
  const out = new BatchWriter(body, sizeOf({ post, patch }));
  const faults: ItemFault[] = [];
  let item = 0;
  const write = (drafts: readonly Draft[]): void => {
    for (const [i, draft] of drafts.entries()) {
      if (i > 0) out.ascii(',');
      const fault = faultOf(body, draft);
      if (fault !== undefined) faults.push({ item, ...fault });
      if (fault !== undefined || draft.run === undefined)
        out.text(`{"id":${JSON.stringify(idOf(draft))}}`);
      else out.run(draft, draft.run);
      item++;
    }
  };
  out.text(BEFORE_POST);
  write(post);
  out.text(BEFORE_PATCH);
  write(patch);
  out.text(AFTER_PATCH);
  const assembled = out.bytes();
  return { body: assembled, index: runsFormat.scan(assembled, limits), faults };
}

function idOf({ name }: Draft): string {
  return name.slice(name.indexOf('.') + 1);
}

const BEFORE_POST = '{"post":[';
const BEFORE_PATCH = '],"patch":[';
const AFTER_PATCH = ']}';
const AROUND = `${BEFORE_POST}${BEFORE_PATCH}${AFTER_PATCH}`.length;

/** The bytes of the batch, if no part has white space around it and no run is an empty object; otherwise some more. */
function sizeOf({ post, patch }: Runs): number {
  return AROUND + bytesOfRuns(post) + bytesOfRuns(patch);
}

function bytesOfRuns(drafts: readonly Draft[]): number {
  let bytes = Math.max(0, drafts.length - 1);
  for (const { run, fields, notes } of drafts) {
    bytes += run === undefined ? 0 : run.end - run.start;
    for (const { field, part } of fields) bytes += field.token.length + part.end - part.start;
    if (notes !== undefined) bytes += NOTES.length + Buffer.byteLength(notes);
  }
  return bytes;
}

/** The key of notes, behind another member. */
const NOTES = ',"attachments":';

/** Writes a batch into memory of its own, which grows as needed; `size` is what it probably needs. */
class BatchWriter {
  readonly #body: Buffer;
  #out: Buffer;
  length = 0;

  constructor(body: Buffer, size: number) {
    this.#body = body;
    this.#out = Buffer.allocUnsafeSlow(size);
  }

  text(text: string): void {
    this.#reserve(Buffer.byteLength(text));
    this.length += this.#out.write(text, this.length);
  }

  /** The last value of a repeated key counts, so the fields are written behind all members of the run. */
  run(
    { fields, notes }: Draft,
    run: Part,
    note?: (slot: number, start: number, end: number) => void,
  ): void {
    const body = this.#body;
    const end = lastVisible(body, run.end);
    const isEmpty = body[lastVisible(body, end)] === OPEN_BRACE;
    this.#copy(firstVisible(body, run), end);
    let comma = isEmpty ? 0 : 1;
    for (const { field, part } of fields) {
      this.#token(field.token, 1 - comma);
      comma = 1;
      const start = this.length;
      this.#copy(firstVisible(body, part), lastVisible(body, part.end) + 1);
      if (field.slot !== undefined) note?.(field.slot, start, this.length);
    }
    if (notes !== undefined) this.text(`${NOTES.slice(1 - comma)}${notes}`);
    this.ascii('}');
  }

  /** As `text`, without characters that take several bytes. */
  ascii(text: string): void {
    this.#reserve(text.length);
    this.length += this.#out.write(text, this.length, 'latin1');
  }

  /** The bytes in a Buffer without unused capacity. The writer is used up. */
  bytes(): Buffer {
    if (this.length === this.#out.length) return this.#out;
    const memory = this.#out.buffer as ArrayBuffer;
    return Buffer.from(memory.transfer(this.length));
  }

  /** Hot path: a loop costs less than a call for a few bytes. */
  #token(token: Uint8Array, from: number): void {
    this.#reserve(token.length);
    const out = this.#out;
    let at = this.length;
    for (let i = from; i < token.length; i++) out[at++] = token[i] as number;
    this.length = at;
  }

  /** Hot path: `set` costs a quarter of `Buffer.copy`. */
  #copy(start: number, end: number): void {
    this.#reserve(end - start);
    this.#out.set(this.#body.subarray(start, end), this.length);
    this.length += end - start;
  }

  #reserve(bytes: number): void {
    const needed = this.length + bytes;
    if (needed <= this.#out.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#out.length * 2));
    this.#out.copy(larger, 0, 0, this.length);
    this.#out = larger;
  }
}

function faultOf(body: Buffer, { run, fields }: Draft): Omit<ItemFault, 'item'> | undefined {
  if (run === undefined) {
    return { code: 'missing_field', reason: 'The part of the run itself is missing.' };
  }
  const isObject = body[firstVisible(body, run)] === OPEN_BRACE;
  if (
    !isObject ||
    !isJson(body, run, MAX_JSON_DEPTH) ||
    body[lastVisible(body, run.end)] !== CLOSE_BRACE
  ) {
    return { code: 'invalid_event', reason: 'The part of the run is no JSON object.' };
  }
  for (const { field, part } of fields) {
    if (isJson(body, part, MAX_JSON_DEPTH - 1)) continue;
    return { code: 'invalid_field', path: field.name, reason: 'is not valid JSON' };
  }
  return undefined;
}

function isJson(body: Buffer, { start, end }: Part, maxDepth: number): boolean {
  try {
    checkJson(body.subarray(start, end), maxDepth);
    return true;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

function firstVisible(body: Buffer, { start, end }: Part): number {
  let at = start;
  while (at < end && isSpace(body[at])) at++;
  return at;
}
