import type { JsonIndex } from '../batch-index.ts';
import { PermanentError } from '../errors.ts';
import type { FormatModule, ItemHead } from '../format-module.ts';
import { cutItems } from '../json/cut.ts';
import { encodeJsonText, ORIGINAL_PARENT_FIELD, reparentItem, spliceJson } from '../json/edit.ts';
import { COMMON } from '../json/fields.ts';
import { isId } from '../json/id.ts';
import {
  customFieldsOf,
  errorAt,
  firstTextAt,
  idAt,
  instantAt,
  metadataText,
  originalParentAt,
  ownId,
  payloadMaskOf,
  payloadOfItem,
  sourceOfItem,
  tokenUsageAt,
  usageBytesOf,
  versionAt,
} from '../json/item.ts';
import { isPresent, stringAt, typeAt } from '../json/read.ts';
import { documentScanner } from '../json/scan.ts';
import { itemTexts, rootTexts } from '../json/texts.ts';
import {
  type Instant,
  OBSERVATION_KINDS,
  type Observation,
  type ObservationError,
  type ObservationKind,
  type ObservationOperation,
  type TokenUsage,
} from '../observation.ts';
import { runDetails } from './details.ts';
import { RUN, RUN_PATTERN, RUN_TEXTS } from './fields.ts';

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
  cut: cutItems,
  erase: cutItems,
  observe,
  payload: payloadOfItem,
  source: sourceOfItem,
  texts: (index, position, visitor) => itemTexts(RUN_TEXTS, index, position, visitor),
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
      return stringAt(index, position, COMMON.name) ?? null;
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
  const startTime = instantAt(index, position, COMMON.start_time, true) ?? null;
  const endTime = instantAt(index, position, COMMON.end_time, true) ?? null;
  const operation = operationOf(error, endTime);
  const runType = runTypeAt(index, position);
  return {
    id,
    ...ancestorsAt(index, position, id),
    index: requestIndex,
    operation,
    version: versionAt(index, position),
    name: stringAt(index, position, COMMON.name) ?? null,
    kind: kindOfRunType(runType),
    status: STATUS_OF[operation],
    startTime,
    endTime,
    ended: operation !== 'start',
    model: firstTextAt(index, position, MODEL_SLOTS),
    usage: usageOf(index, position, runType),
    sessionId: firstTextAt(index, position, SESSION_SLOTS),
    userId: firstTextAt(index, position, USER_SLOTS),
    error,
    customFields: customFieldsOf(index, position),
    external: externalOf(index, position, runType),
    details: runDetails(index, position, startTime),
    payloadMask: payloadMaskOf(index, position),
  };
}

function operationOf(
  error: ObservationError | null,
  endTime: Instant | null,
): ObservationOperation {
  if (error !== null) return 'error';
  return endTime !== null ? 'finish' : 'start';
}

function operationAt(index: JsonIndex, position: number): ObservationOperation {
  const endTime = instantAt(index, position, COMMON.end_time, true) ?? null;
  return operationOf(runError(index, position), endTime);
}

function runTypeAt(index: JsonIndex, position: number): string | null {
  return stringAt(index, position, COMMON.run_type) || null;
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
    case 'string':
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
const SESSION_SLOTS = [
  RUN['extra.metadata.session_id'],
  RUN['extra.metadata.thread_id'],
  RUN['extra.metadata.conversation_id'],
  COMMON['metadata.session_id'],
];
const USER_SLOTS = [COMMON['extra.metadata.user_id'], COMMON['metadata.user_id']];

/**
 * Only model calls have usage: LangSmith's clients repeat the sums of child runs on their parents, which would
 * count them twice.
 */
function usageOf(index: JsonIndex, position: number, runType: string | null): TokenUsage | null {
  if (runType !== null && !MODEL_RUN_TYPES.has(runType)) return null;
  const slot = USAGE_SLOTS.find((slot) => isPresent(index, position, slot));
  return slot === undefined ? null : tokenUsageAt(index, position, slot, 'included');
}

const MODEL_RUN_TYPES: ReadonlySet<string> = new Set(['llm', 'embedding', 'generation', 'model']);
const USAGE_SLOTS = [RUN['outputs.usage_metadata'], RUN['extra.metadata.usage_metadata']];

/** Values without a column: an unknown run type, the session's name, the id of a dropped parent. */
function externalOf(
  index: JsonIndex,
  position: number,
  runType: string | null,
): Readonly<Record<string, string>> | null {
  const sessionName = stringAt(index, position, RUN.session_name);
  const originalParent = originalParentAt(index, position, ORIGINAL_PARENT);
  const isForeign = runType !== null && kindOfRunType(runType) !== runType;
  if (!isForeign && sessionName === undefined && originalParent === null) return null;
  return {
    ...(isForeign ? { run_type: runType } : {}),
    ...(sessionName === undefined ? {} : { session_name: sessionName }),
    ...(originalParent === null ? {} : { parent_id: originalParent }),
  };
}
