import type { JsonIndex } from '../batch-index.ts';
import { errorOfText } from '../error-text.ts';
import { PermanentError } from '../errors.ts';
import type { FormatModule, ItemHead } from '../format-module.ts';
import { IgnoredValues } from '../ignored.ts';
import { cutItems } from '../json/cut.ts';
import { membersAt } from '../json/details.ts';
import { encodeJsonText, ORIGINAL_PARENT_FIELD, reparentItem, spliceJson } from '../json/edit.ts';
import { COMMON } from '../json/fields.ts';
import { QUOTE } from '../json/grammar.ts';
import { isId } from '../json/id.ts';
import {
  customFieldsOf,
  errorAt,
  firstTextAt,
  idAt,
  instantAt,
  metadataSlot,
  metadataText,
  originalParentAt,
  ownId,
  payloadMaskOf,
  payloadOfItem,
  sourceOfItem,
  usageBytesOf,
  versionAt,
} from '../json/item.ts';
import { narrowStringAt } from '../json/narrow.ts';
import { isPresent, type Member, stringAt, stringIn, textAt, typeAt } from '../json/read.ts';
import { documentScanner } from '../json/scan.ts';
import { rootTexts } from '../json/texts.ts';
import {
  type Instant,
  OBSERVATION_KINDS,
  type Observation,
  type ObservationError,
  type ObservationKind,
  type ObservationOperation,
  PAYLOAD_FIELDS,
  type Payload,
  type PayloadField,
} from '../observation.ts';
import { attachmentBytes, runTexts } from './attached.ts';
import { isRunSentTwice, runDetails, runMetadata } from './details.ts';
import { RUN, RUN_PATTERN } from './fields.ts';
import { isModelCall, usageOf } from './usage.ts';

/** Runs in LangSmith's form: `{"post":[…],"patch":[…]}`. `wrapRun` makes it of a single run. */
export const runs: FormatModule<JsonIndex> = {
  scan: documentScanner({
    type: 'runs',
    pattern: RUN_PATTERN,
    arrays: ['post', 'patch'],
    required: false,
  }),
  itemId: ownId,
  usageBytes: usageBytesOf,
  besideBytes: attachmentBytes,
  cut: cutItems,
  erase: cutItems,
  observe,
  payload,
  source: sourceOfItem,
  texts: runTexts,
  sharedTexts: rootTexts,
  head,
  encodeText: encodeJsonText,
  splice: spliceJson,
  reparent: (index, position, parent) =>
    reparentItem(PARENTS, ORIGINAL_PARENT, index, position, parent),
};

const PARENTS = [{ slot: RUN.parent_run_id, name: 'parent_run_id' }];
const ORIGINAL_PARENT = RUN[ORIGINAL_PARENT_FIELD];

function head(index: JsonIndex, position: number): ItemHead {
  const ancestors = () => ancestorsAt(index, position, ownId(index, position));
  return {
    get id() {
      return ownId(index, position);
    },
    get traceId() {
      return ancestors().traceId;
    },
    get parentId() {
      return ancestors().parentId;
    },
    get name() {
      return narrowStringAt(index, position, COMMON.name) ?? null;
    },
    get kind() {
      return kindOfRunType(runTypeAt(index, position));
    },
    get status() {
      return STATUS_OF[operationAt(index, position)];
    },
    scope: null,
    attribute: (key) => metadataText(index, position, key),
  };
}

function observe(index: JsonIndex, position: number, requestIndex: number): Observation {
  const id = ownId(index, position);
  // The validation processor rejects such runs; not every pipeline has one.
  if (id === undefined) throw new PermanentError('unreadable_event', 'The run has no id.');
  const error = runError(index, position);
  const ignored = new IgnoredValues();
  const startTime = timeAt(index, position, 'start_time', ignored);
  const endTime = timeAt(index, position, 'end_time', ignored);
  const operation = operationAt(index, position);
  const runType = runTypeAt(index, position);
  const metadata = runMetadata(index, position);
  const observation: Observation = {
    id,
    ...ancestorsAt(index, position, id),
    index: requestIndex,
    operation,
    version: versionAt(index, position),
    name: narrowStringAt(index, position, COMMON.name) ?? null,
    kind: kindOfRunType(runType),
    status: STATUS_OF[operation],
    startTime,
    endTime,
    ended: operation !== 'start',
    model: modelOf(index, position, runType),
    usage: usageOf(index, position, runType, ignored),
    sessionId: sessionOf(index, position),
    userId: userOf(index, position),
    error,
    customFields: customFieldsOf(index, position),
    external: externalOf(index, position, runType),
    details: runDetails(index, position, startTime, metadata, ignored),
    payloadMask: payloadMaskOfRun(index, position),
  };
  return isRunSentTwice(index, metadata) ? { ...observation, sentTwice: true } : observation;
}

/** A malformed time costs the time only. */
function timeAt(
  index: JsonIndex,
  position: number,
  name: 'start_time' | 'end_time',
  ignored: IgnoredValues,
): Instant | null {
  if (!hasTime(index, position, name)) return null;
  const time = instantAt(index, position, COMMON[name], true);
  if (time === undefined) ignored.add(name, 'time');
  return time ?? null;
}

function hasTime(index: JsonIndex, position: number, name: 'start_time' | 'end_time'): boolean {
  return (
    isPresent(index, position, COMMON[name]) && narrowStringAt(index, position, COMMON[name]) !== ''
  );
}

/** A run with an end time has ended, also if the time is malformed. */
function operationAt(index: JsonIndex, position: number): ObservationOperation {
  if (runError(index, position) !== null) return 'error';
  return hasTime(index, position, 'end_time') ? 'finish' : 'start';
}

function runTypeAt(index: JsonIndex, position: number): string | null {
  return narrowStringAt(index, position, COMMON.run_type) || null;
}

const STATUS_OF = { start: 'running', finish: 'success', error: 'error' } as const;

/** The run's trace and parent. After `reparent`, `dotted_order` still names the original parent, and is ignored. */
function ancestorsAt(
  index: JsonIndex,
  position: number,
  id: string | undefined,
): { traceId: string | null; parentId: string | null } {
  const order = parseDottedOrder(stringAt(index, position, RUN.dotted_order));
  const named = idAt(index, position, RUN.parent_run_id);
  const isReparented = originalParentAt(index, position, ORIGINAL_PARENT) !== null;
  const parentId = isReparented ? named : (named ?? order.parentId);
  const traceId = idAt(index, position, COMMON.trace_id) ?? order.traceId;
  return { traceId: traceId ?? ownTrace(index, position, id, parentId), parentId };
}

/**
 * A created run that names neither trace nor parent is the root of a trace with its id. For all others the trace is
 * null: the store takes that of the parent, or of the run that an update is for, by project and id.
 */
function ownTrace(
  index: JsonIndex,
  position: number,
  id: string | undefined,
  parentId: string | null,
): string | null {
  const isRoot = position < index.posts && (parentId === null || parentId === id);
  return isRoot ? (id ?? null) : null;
}

/** LangSmith's path of a run: segments of a time and an id, from the root run to this one. */
function parseDottedOrder(text: string | undefined): {
  traceId: string | null;
  parentId: string | null;
} {
  if (text === undefined) return { traceId: null, parentId: null };
  const own = text.lastIndexOf('.');
  const parent = own === -1 ? null : text.slice(text.lastIndexOf('.', own - 1) + 1, own);
  const root = text.indexOf('.');
  return {
    traceId: idOfSegment(root === -1 ? text : text.slice(0, root)),
    parentId: idOfSegment(parent),
  };
}

function idOfSegment(segment: string | null): string | null {
  const id = segment === null ? undefined : /^\d{8}T\d{12}Z(.+)$/s.exec(segment)?.[1];
  return id !== undefined && isId(id) ? id : null;
}

function kindOfRunType(runType: string | null): ObservationKind | null {
  if (runType === null) return null;
  return OBSERVATION_KINDS.find((kind) => kind === runType) ?? 'chain';
}

/** A run's error is a string. Any other value that is not null means a failed run without details. */
function runError(index: JsonIndex, position: number): ObservationError | null {
  switch (typeAt(index, position, COMMON.error)) {
    case 'absent':
    case 'null':
      return null;
    case 'string': {
      const text = stringAt(index, position, COMMON.error) ?? '';
      return text === '' ? null : errorOfText(text);
    }
    case 'object':
      return errorAt(index, position);
    default:
      return { message: null, type: null, stacktrace: null };
  }
}

const MODEL_SLOTS = [
  RUN['extra.metadata.ls_model_name'],
  RUN['extra.invocation_params.model'],
  RUN['extra.invocation_params.model_name'],
];
/** LiteLLM sends the model in the inputs and outputs. */
function modelOf(index: JsonIndex, position: number, runType: string | null): string | null {
  const named = firstTextAt(index, position, MODEL_SLOTS);
  if (named !== null || !isModelCall(runType)) return named;
  for (const slot of [COMMON.outputs, COMMON.inputs]) {
    const { model } = membersAt(index, position, slot, ['model']);
    const text = textIn(index, model);
    if (text !== null) return text;
  }
  return null;
}

const SESSION_SLOTS = [
  RUN['extra.metadata.session_id'],
  RUN['extra.metadata.thread_id'],
  RUN['extra.metadata.conversation_id'],
  COMMON['metadata.session_id'],
];
const USER_SLOTS = [COMMON['extra.metadata.user_id'], COMMON['metadata.user_id']];

function sessionOf(index: JsonIndex, position: number): string | null {
  return (
    firstTextAt(index, position, SESSION_SLOTS) ??
    textOfBareExtra(index, position, ['session_id', 'thread_id', 'conversation_id']) ??
    (isBareExtra(index, position) ? firstTextAt(index, position, OWN_SESSION_SLOTS) : null)
  );
}

/** LiteLLM moves the `session_id` of its metadata here, where LangSmith's clients have the id of a project. */
const OWN_SESSION_SLOTS = [RUN.session_id];

function userOf(index: JsonIndex, position: number): string | null {
  return (
    firstTextAt(index, position, USER_SLOTS) ??
    textOfBareExtra(index, position, [
      'user_id',
      'user_api_key_end_user_id',
      'user_api_key_user_id',
    ])
  );
}

function textOfBareExtra(
  index: JsonIndex,
  position: number,
  names: readonly string[],
): string | null {
  if (!isBareExtra(index, position)) return null;
  const found = membersAt(index, position, COMMON.extra, names);
  for (const name of names) {
    const text = textIn(index, found[name]);
    if (text !== null) return text;
  }
  return null;
}

function textIn({ bytes }: JsonIndex, member: Member | undefined): string | null {
  if (member === undefined || bytes[member.start] !== QUOTE) return null;
  return stringIn(bytes, member.start, member.end) || null;
}

/** LiteLLM sends its metadata as `extra` itself, where LangSmith's clients have `metadata` and `runtime`. */
function isBareExtra(index: JsonIndex, position: number): boolean {
  if (typeAt(index, position, COMMON.extra) !== 'object') return false;
  if (isPresent(index, position, metadataSlot(index, position))) return false;
  return Object.keys(membersAt(index, position, COMMON.extra, LANGSMITH_EXTRA)).length === 0;
}

const LANGSMITH_EXTRA = ['metadata', 'runtime', 'invocation_params'] as const;

function payloadMaskOfRun(index: JsonIndex, position: number): number {
  const mask = payloadMaskOf(index, position);
  return isBareExtra(index, position) ? mask | METADATA_BIT : mask;
}

const METADATA_BIT = 1 << PAYLOAD_FIELDS.indexOf('metadata');

function payload(index: JsonIndex, position: number, fields: readonly PayloadField[]): Payload {
  const found = payloadOfItem(index, position, fields);
  if (!fields.includes('metadata') || !isBareExtra(index, position)) return found;
  return { ...found, metadata: textAt(index, position, COMMON.extra) ?? '{}' };
}

/** Values without a column: an unknown run type, the session's name, the example of a data set, the id of a dropped parent. */
function externalOf(
  index: JsonIndex,
  position: number,
  runType: string | null,
): Readonly<Record<string, string>> | null {
  const sessionName = stringAt(index, position, RUN.session_name);
  const example = idAt(index, position, RUN.reference_example_id);
  const originalParent = originalParentAt(index, position, ORIGINAL_PARENT);
  const isForeign = runType !== null && kindOfRunType(runType) !== runType;
  const isEmpty = sessionName === undefined && example === null && originalParent === null;
  if (!isForeign && isEmpty) return null;
  return {
    ...(example === null ? {} : { reference_example_id: example }),
    ...(isForeign ? { run_type: runType } : {}),
    ...(sessionName === undefined ? {} : { session_name: sessionName }),
    ...(originalParent === null ? {} : { parent_id: originalParent }),
  };
}
