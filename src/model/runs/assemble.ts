import { Refusal } from '../errors.ts';
import { CLOSE_BRACE, MAX_JSON_DEPTH, OPEN_BRACE } from '../json/grammar.ts';
import { checkJson } from '../json/scan.ts';
import type { RejectionCode } from '../rejection.ts';
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
  readonly faults: readonly ItemFault[];
  /** Parts that are neither runs nor fields of them. */
  readonly leftOut: LeftOutParts;
};

type LeftOutParts = { readonly attachments: number; readonly others: number };

type Verb = 'post' | 'patch';

type Draft = {
  readonly id: string;
  run: Part | undefined;
  readonly fields: Map<string, Part>;
  /** Their names; undefined without any. */
  attachments: Map<string, Part> | undefined;
};

/** The members of a run that have parts of their own. */
const FIELDS: ReadonlySet<string> = new Set([
  ...['inputs', 'outputs', 'events', 'extra', 'error', 'serialized'],
]);

/**
 * The batch of a request of LangSmith's clients to `/runs/multipart`:
 *
 *   post.ID, patch.ID        the run, without large fields
 *   post.ID.inputs, …        a field of it, as JSON
 *   attachment.ID.NAME       bytes
 *   feedback.ID              JSON
 *
 * A part that is no JSON costs its run, not the batch. Throws a `Refusal` if the body is no multipart body.
 */
export function assembleRuns(body: Buffer, boundary: string): AssembledRuns {
  const runs: Record<Verb, Draft[]> = { post: [], patch: [] };
  const newest = new Map<string, Draft>();
  const attachments: Part[] = [];
  let others = 0;
  for (const part of partsOf(body, boundary)) {
    const named = runPart(part.name);
    if (named === undefined) {
      if (part.name.startsWith(ATTACHMENT)) attachments.push(part);
      else others++;
      continue;
    }
    const { verb, id, field } = named;
    const known = newest.get(`${verb}.${id}`);
    // A second part of the run itself begins another item with the id.
    const isNew = known === undefined || (field === undefined && known.run !== undefined);
    const draft = isNew ? newDraft(id) : known;
    if (isNew) {
      runs[verb].push(draft);
      newest.set(`${verb}.${id}`, draft);
    }
    if (field === undefined) draft.run = part;
    else draft.fields.set(field, part);
  }
  for (const part of attachments) noteAttachment(newest, part);
  return { ...batchOf(body, runs), leftOut: { attachments: attachments.length, others } };
}

const ATTACHMENT = 'attachment.';

function newDraft(id: string): Draft {
  return { id, run: undefined, fields: new Map(), attachments: undefined };
}

/** The run names its attachments, which are not stored. */
function noteAttachment(newest: ReadonlyMap<string, Draft>, part: Part): void {
  const [id = '', ...name] = part.name.slice(ATTACHMENT.length).split('.');
  const draft = newest.get(`post.${id}`) ?? newest.get(`patch.${id}`);
  if (draft === undefined) return;
  draft.attachments ??= new Map();
  draft.attachments.set(name.join('.'), part);
}

function runPart(name: string): { verb: Verb; id: string; field?: string } | undefined {
  const verb = name.startsWith('post.') ? 'post' : name.startsWith('patch.') ? 'patch' : undefined;
  if (verb === undefined) return undefined;
  const rest = name.slice(verb.length + 1);
  const dot = rest.lastIndexOf('.');
  const field = dot === -1 ? '' : rest.slice(dot + 1);
  return FIELDS.has(field) ? { verb, id: rest.slice(0, dot), field } : { verb, id: rest };
}

function batchOf(body: Buffer, { post, patch }: Record<Verb, Draft[]>) {
  const pieces: Buffer[] = [];
  const faults: ItemFault[] = [];
  let item = 0;
  const write = (drafts: readonly Draft[]): void => {
    for (const [i, draft] of drafts.entries()) {
      if (i > 0) pieces.push(COMMA);
      const fault = faultOf(body, draft);
      if (fault !== undefined) {
        faults.push({ item, ...fault });
        pieces.push(Buffer.from(JSON.stringify({ id: draft.id })));
      } else pushRun(pieces, body, draft);
      item++;
    }
  };
  pieces.push(POST);
  write(post);
  pieces.push(PATCH);
  write(patch);
  pieces.push(END);
  return { body: Buffer.concat(pieces), faults };
}

const COMMA = Buffer.from(',');
const POST = Buffer.from('{"post":[');
const PATCH = Buffer.from('],"patch":[');
const END = Buffer.from(']}');
const CLOSED = Buffer.from('}');

/** The last value of a repeated key counts, so the fields are added behind all members of the run. */
function pushRun(pieces: Buffer[], body: Buffer, { run, fields, attachments }: Draft): void {
  if (run === undefined) return;
  const end = lastVisible(body, run.end);
  const isEmpty = body[lastVisible(body, end)] === OPEN_BRACE;
  pieces.push(body.subarray(run.start, end));
  let separator = isEmpty ? '' : ',';
  for (const [name, { start, end }] of fields) {
    pieces.push(Buffer.from(`${separator}"${name}":`), body.subarray(start, end));
    separator = ',';
  }
  if (attachments !== undefined) {
    const noted = JSON.stringify(Object.fromEntries([...attachments].map(noteOf)));
    pieces.push(Buffer.from(`${separator}"attachments":${noted}`));
  }
  pieces.push(CLOSED);
}

function noteOf([name, { contentType, start, end }]: readonly [string, Part]) {
  return [name, { mime_type: contentType, bytes: end - start }] as const;
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
