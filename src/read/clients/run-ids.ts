import type { Tenant } from '../../model/batch.ts';
import type { Store, StoredObservation } from '../../store/store.ts';
import type { Read } from '../reads.ts';
import { halvesOfUuid, isNoHalf } from './uuid.ts';

/** Whose runs are looked up, and where. */
export type RunPlace = {
  readonly tenant: Tenant;
  readonly store: Store;
  readonly read?: Pick<Read, 'turn'>;
};

/**
 * The most traces with one first half that are looked into. Random ids share none, and those of Datadog's tracers share it with all of the
 * same second.
 */
const MOST_TRACES = 1000;
/** Traces of one turn at the store. */
const TRACES_OF_TURN = 20;

/**
 * The observation with an id that a client of LangSmith names: its own id, or the UUID of a span or of a trace, whose root it is
 * (`uuidOfRun`, `uuidOfTrace`). The UUID that LangSmith makes of a span id alone needs the trace.
 */
export async function findRun(
  place: RunPlace,
  id: string,
  traceId?: string,
): Promise<StoredObservation | undefined> {
  const { tenant, store } = place;
  const { projectId } = tenant;
  const find = (one: string, trace?: string) =>
    inTurn(place, () => store.traces.getObservation(projectId, one, trace));
  const found = await find(id, traceId);
  const halves = halvesOfUuid(id);
  if (found !== undefined || halves === undefined) return found;
  const [begin, span] = halves;
  const traces = traceId === undefined ? await tracesOf(place, begin) : [traceId];
  for (let from = 0; from < traces.length; from += TRACES_OF_TURN) {
    const some = traces.slice(from, from + TRACES_OF_TURN);
    const inTraces = await inTurn(place, () =>
      Promise.all(
        some.map((trace) => store.traces.getObservation(projectId, `${trace}:${span}`, trace)),
      ),
    );
    const inTrace = inTraces.find((each) => each !== undefined);
    if (inTrace !== undefined) return inTrace;
  }
  return inTurn(place, () => store.traces.getRoot(projectId, begin + span));
}

async function tracesOf(place: RunPlace, half: string): Promise<string[]> {
  if (isNoHalf(half)) return [];
  const { store, tenant } = place;
  const find = () => store.traces.listTraceIds(tenant.projectId, half, MOST_TRACES);
  return [`${'0'.repeat(16)}${half}`, ...(await inTurn(place, find))];
}

/**
 * The trace id that a client names by it or by its UUID. A trace that is not stored has the given id, or that of OTLP if the
 * client names a run by its span id alone.
 */
export async function storedTraceId(place: RunPlace, id: string, runId?: string): Promise<string> {
  const hex = halvesOfUuid(id)?.join('');
  if (hex === undefined) return id;
  const { store, tenant } = place;
  const isStored = async (one: string) =>
    (await inTurn(place, () => store.traces.getTrace(tenant.projectId, one))) !== undefined;
  if (await isStored(id)) return id;
  const isOtlp = runId !== undefined && lonelySpanId(runId) !== undefined;
  return isOtlp || (await isStored(hex)) ? hex : id;
}

/** The span id of the UUID that LangSmith makes of it alone, with zeros before it. */
export function lonelySpanId(id: string): string | undefined {
  const [begin = '', span] = halvesOfUuid(id) ?? [];
  return isNoHalf(begin) ? span : undefined;
}

function inTurn<T>({ read }: RunPlace, work: () => Promise<T>): Promise<T> {
  return read === undefined ? work() : read.turn(work);
}
