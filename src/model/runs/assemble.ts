import type { AttachmentContent, AttachmentLimits } from '../attachments.ts';
import type { JsonIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import type { ScanLimits } from '../format-module.ts';
import { COMMON } from '../json/fields.ts';
import { CLOSE_BRACE, MAX_JSON_DEPTH, OPEN_BRACE } from '../json/grammar.ts';
import { endOf, itemRange, startOf } from '../json/read.ts';
import { checkJson } from '../json/scan.ts';
import type { RejectionCode } from '../rejection.ts';
import { Attached } from './attached.ts';
import { runs as runsFormat } from './format.ts';
import type { Part } from './multipart.ts';
import { partsOf } from './multipart.ts';
import { lastVisible } from './wrap.ts';

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
  readonly id: string;
  run: Part | undefined;
  readonly fields: Map<string, Part>;
  /** By name; undefined without any. */
  attachments: Map<string, Part> | undefined;
  /** The member `attachments` of the run; undefined without any. */
  notes: string | undefined;
};

/** The members of a run that have parts of their own, with their slots in the index; undefined for one that has none. */
const SLOTS: Readonly<Record<string, number | undefined>> = {
  inputs: COMMON.inputs,
  outputs: COMMON.outputs,
  events: COMMON.events,
  extra: COMMON.extra,
  error: COMMON.error,
  serialized: undefined,
};

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
  for (const part of partsOf(body, boundary)) {
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
    const draft = isNew ? newDraft(run.slice(run.indexOf('.') + 1)) : known;
    if (isNew) {
      runs[run.startsWith(POST) ? 'post' : 'patch'].push(draft);
      newest.set(run, draft);
    }
    if (field === undefined) draft.run = part;
    else draft.fields.set(field, part);
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

function newDraft(id: string): Draft {
  return { id, run: undefined, fields: new Map(), attachments: undefined, notes: undefined };
}

/** Returns whether the request has the run of the attachment. */
function attach(newest: ReadonlyMap<string, Draft>, part: Part): boolean {
  const [id = '', ...name] = part.name.slice(ATTACHMENT.length).split('.');
  const draft = newest.get(POST + id) ?? newest.get(PATCH + id);
  if (draft === undefined) return false;
  draft.attachments ??= new Map();
  draft.attachments.set(name.join('.'), part);
  return true;
}

/** Hot path: the name of the part of the run itself, `post.ID`, and the field of it, if the part is one. */
function runPart(name: string): { run: string; field: string | undefined } | undefined {
  if (!name.startsWith(POST) && !name.startsWith(PATCH)) return undefined;
  const dot = name.lastIndexOf('.');
  const field = dot === name.indexOf('.') ? '' : name.slice(dot + 1);
  return Object.hasOwn(SLOTS, field)
    ? { run: name.slice(0, dot), field }
    : { run: name, field: undefined };
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
  const out = new BatchWriter(body);
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
  out.text('{"post":[');
  if (!write(post)) return undefined;
  out.text('],"patch":[');
  if (!write(patch)) return undefined;
  out.text(']}');
  return { body: out.bytes(), items, fields };
}

/** Looks at the ends of the parts only, and checks those that a scan does not find. */
function isWhole(body: Buffer, { run, fields }: Draft): boolean {
  if (run === undefined || body[firstVisible(body, run)] !== OPEN_BRACE) return false;
  if (body[lastVisible(body, run.end)] !== CLOSE_BRACE) return false;
  for (const [name, part] of fields) {
    if (firstVisible(body, part) === part.end) return false;
    if (SLOTS[name] === undefined && !isJson(body, part, MAX_JSON_DEPTH - 1)) return false;
  }
  return true;
}

/** Each part is checked on its own, and an item with a bad one is rejected. */
function scannedInParts(body: Buffer, { post, patch }: Runs, limits: ScanLimits) {
  const out = new BatchWriter(body);
  const faults: ItemFault[] = [];
  let item = 0;
  const write = (drafts: readonly Draft[]): void => {
    for (const [i, draft] of drafts.entries()) {
      if (i > 0) out.ascii(',');
      const fault = faultOf(body, draft);
      if (fault !== undefined) faults.push({ item, ...fault });
      if (fault !== undefined || draft.run === undefined)
        out.text(`{"id":${JSON.stringify(draft.id)}}`);
      else out.run(draft, draft.run);
      item++;
    }
  };
  out.text('{"post":[');
  write(post);
  out.text('],"patch":[');
  write(patch);
  out.text(']}');
  const assembled = out.bytes();
  return { body: assembled, index: runsFormat.scan(assembled, limits), faults };
}

/** Writes a batch into memory of its own, which grows if ids and names are spelled longer than in the body. */
class BatchWriter {
  readonly #body: Buffer;
  #out: Buffer;
  length = 0;

  constructor(body: Buffer) {
    this.#body = body;
    this.#out = Buffer.allocUnsafeSlow(body.length + 64);
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
    let separator = isEmpty ? '' : ',';
    for (const [name, part] of fields) {
      this.ascii(`${separator}"${name}":`);
      const start = this.length;
      this.#copy(firstVisible(body, part), lastVisible(body, part.end) + 1);
      const slot = SLOTS[name];
      if (slot !== undefined) note?.(slot, start, this.length);
      separator = ',';
    }
    if (notes !== undefined) this.text(`${separator}"attachments":${notes}`);
    this.ascii('}');
  }

  /** As `text`, without characters that take several bytes. */
  ascii(text: string): void {
    this.#reserve(text.length);
    this.length += this.#out.write(text, this.length, 'latin1');
  }

  /** The bytes in a Buffer without unused capacity. The writer is used up. */
  bytes(): Buffer {
    const memory = this.#out.buffer as ArrayBuffer;
    return Buffer.from(memory.transfer(this.length));
  }

  #copy(start: number, end: number): void {
    this.#reserve(end - start);
    this.length += this.#body.copy(this.#out, this.length, start, end);
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
  for (const [name, part] of fields) {
    if (isJson(body, part, MAX_JSON_DEPTH - 1)) continue;
    return { code: 'invalid_field', path: name, reason: 'is not valid JSON' };
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
  while (at < end && (body[at] ?? 0) <= 0x20) at++;
  return at;
}
