import type { Admission, Pipeline, RequestHead } from '../component/component.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { Batch, Permission, SealedBatch, Tenant } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import { Refusal, tooLate } from '../model/errors.ts';
import { seal } from '../model/seal.ts';
import type { ProcessorEdge, ReceiverEdge } from './edges.ts';
import type { Sink } from './fanout.ts';
import { fanOut } from './fanout.ts';
import type { BatchStep, Decision, RequestStep } from './steps.ts';
import { decide, settle, transform } from './steps.ts';

/** The components of one pipeline, in one generation of the graph. */
export type PipelineStages = {
  /** They run on received batches, before the seal. */
  readonly requestSteps: readonly RequestStep[];
  readonly batchSteps: readonly BatchStep[];
  readonly sinks: readonly Sink[];
  /** Batches in flight. */
  active: number;
  /** Called when no batch is in flight any more. */
  onIdle: (() => void) | undefined;
};

/**
 * A pipeline that outlives its components: receivers and connectors hold it, a reload exchanges its stages.
 * While `gate` is set, requests and batches wait for the exchange.
 */
export type PipelineSlot = {
  readonly id: string;
  stages: PipelineStages;
  gate: Promise<void> | undefined;
};

/**
 * A slot as one receiver or connector sees it, with its own counts.
 *
 *   admit(head) ──▶ authenticate ──▶ permission ──▶ every processor that admits
 *   admitRead(head) ─ the same for `traces:read`, with every processor that admits reads; the edge counts no items
 *   accept(received batch) ──▶ request steps ──▶ seal ──▶ batch steps ──▶ exporters ──▶ settle
 *   consume(sealed batch) ───────────────────────────────▶ batch steps ──▶ exporters
 *   process(sealed batch) ───────────────────────────────▶ batch steps
 */
export function createPipeline(
  slot: PipelineSlot,
  edge: ReceiverEdge,
  scanner: Pick<Scanner, 'prepare'>,
): Pipeline {
  return {
    id: slot.id,
    admit: (head, fallback) => {
      if (slot.gate !== undefined) return slot.gate.then(() => admit(slot, edge, head, fallback));
      return admit(slot, edge, head, fallback);
    },
    admitRead: (head, fallback, permission = 'traces:read') => {
      const purpose: Purpose = { permission, asks: 'admitRead' };
      if (slot.gate !== undefined) {
        return slot.gate.then(() => admitAs(slot.stages, purpose, head, fallback));
      }
      return admitAs(slot.stages, purpose, head, fallback);
    },
    accept: (batch, request) => accept(slot, edge, { batch, request, scanner, settling: [] }),
    consume: (batch) => consume(slot, edge, batch),
    async process(batch, again = false) {
      const stages = enter(slot) ?? (await enterLater(slot));
      try {
        const processed = await transform(stages.batchSteps, batch, again);
        if (!again) edge.delivered(itemsOf(batch));
        return processed;
      } finally {
        leave(stages);
      }
    },
    get branches() {
      return slot.stages.sinks;
    },
    get idempotency() {
      return slot.stages.sinks.find(({ exporter }) => exporter.idempotency)?.exporter.idempotency;
    },
    get offers() {
      return slot.stages.requestSteps.flatMap(({ processor }) => processor.offers ?? []);
    },
    get answerWithin() {
      let least: number | undefined;
      for (const { exporter } of slot.stages.sinks) {
        const { answerWithin } = exporter;
        if (answerWithin !== undefined) least = Math.min(answerWithin, least ?? answerWithin);
      }
      return least;
    },
  };
}

async function accept(
  slot: PipelineSlot,
  edge: ReceiverEdge,
  decision: Decision,
): Promise<SealedBatch> {
  const { batch, request } = decision;
  const end = edge.begin();
  const stages = enter(slot) ?? (await enterLater(slot));
  let sealed: SealedBatch;
  try {
    if (stages.requestSteps.length > 0) await decide(stages.requestSteps, decision);
    sealed = seal(batch, request);
    const { batchSteps } = stages;
    const processed = batchSteps.length > 0 ? await transform(batchSteps, sealed, false) : sealed;
    await request.storeBeside?.(sealed);
    if (request.signal.aborted) throw tooLate();
    await fanOut(stages.sinks, processed, request);
  } catch (error) {
    edge.refused(batch.requestItems - batch.rejections.length, error);
    settle(decision, 'failed');
    throw error;
  } finally {
    leave(stages);
    end();
  }
  // The client reads that dropped items were accepted, so they count as accepted.
  edge.accepted(sealed.requestItems - sealed.rejections.length, sealed.rejections);
  settle(decision, 'durable');
  return sealed;
}

async function consume(slot: PipelineSlot, edge: ReceiverEdge, batch: Batch): Promise<void> {
  const end = edge.begin();
  const stages = enter(slot) ?? (await enterLater(slot));
  try {
    await fanOut(stages.sinks, await transform(stages.batchSteps, batch, false));
  } catch (error) {
    edge.refused(itemsOf(batch), error);
    throw error;
  } finally {
    leave(stages);
    end();
  }
  edge.accepted(itemsOf(batch), []);
}

/** Undefined while the batch has to wait for an exchange of the stages. Hot path: a batch that need not wait costs no promise. */
function enter(slot: PipelineSlot): PipelineStages | undefined {
  if (slot.gate !== undefined) return undefined;
  slot.stages.active++;
  return slot.stages;
}

async function enterLater(slot: PipelineSlot): Promise<PipelineStages> {
  for (;;) {
    await slot.gate;
    const stages = enter(slot);
    if (stages !== undefined) return stages;
  }
}

function leave(stages: PipelineStages): void {
  stages.active--;
  if (stages.active === 0) stages.onIdle?.();
}

/** Resolves when no batch is in flight in these stages. */
export function drained(stages: PipelineStages): Promise<void> {
  if (stages.active === 0) return Promise.resolve();
  return new Promise((resolve) => {
    stages.onIdle = resolve;
  });
}

function authenticate(
  stages: PipelineStages,
  head: RequestHead,
  permission: Permission,
  fallback: Tenant | undefined,
): Promise<Tenant> | Tenant {
  const step = stages.requestSteps.find(({ processor }) => processor.authenticate !== undefined);
  try {
    const named = step === undefined ? fallback : step.processor.authenticate?.(head);
    if (named === undefined) {
      throw new Refusal(
        'unauthorized',
        'The request has no API key and the receiver has no default project.',
      );
    }
    if (!isPromise(named)) return permitted(named, permission);
    return named.then(
      (tenant) => permitted(tenant, permission),
      (error: unknown) => unauthenticated(stages, head, error),
    );
  } catch (error) {
    return unauthenticated(stages, head, error);
  }
}

/** A processor that limits failed authentications may replace the refusal by its own. */
function unauthenticated(stages: PipelineStages, head: RequestHead, error: unknown): never {
  if (error instanceof Refusal && error.code === 'unauthorized') {
    for (const { processor } of stages.requestSteps) processor.authenticationFailed?.(head);
  }
  throw error;
}

function permitted(tenant: Tenant, permission: Permission): Tenant {
  if (tenant.permissions.includes(permission)) return tenant;
  const message = `This key does not have the permission ${permission}.`;
  throw attributed(tenant, new Refusal('forbidden', message));
}

/** The same error, with the tenant whose request was refused. */
function attributed(tenant: Tenant, error: unknown): unknown {
  if (error instanceof Refusal) error.tenant ??= tenant;
  return error;
}

/** Hot path: synchronous unless a processor has to wait, which is rare. */
function admit(
  slot: PipelineSlot,
  edge: ReceiverEdge,
  head: RequestHead,
  fallback: Tenant | undefined,
): Promise<Admission> | Admission {
  try {
    const admission = admitAs(slot.stages, INGESTION, head, fallback);
    if (!isPromise(admission)) return inFlight(edge, admission);
    return admission.then(
      (known) => inFlight(edge, known),
      (error: unknown) => {
        edge.turnedAway(error);
        throw error;
      },
    );
  } catch (error) {
    edge.turnedAway(error);
    throw error;
  }
}

/** The permission that a request needs, and the method of the processors that admit it. */
type Purpose = { readonly permission: Permission; readonly asks: 'admit' | 'admitRead' };
const INGESTION: Purpose = { permission: 'ingest:write', asks: 'admit' };

function admitAs(
  stages: PipelineStages,
  { permission, asks }: Purpose,
  head: RequestHead,
  fallback: Tenant | undefined,
): Promise<Admission> | Admission {
  const tenant = authenticate(stages, head, permission, fallback);
  if (!isPromise(tenant)) return askAll(stages, asks, head, tenant);
  return tenant.then((known) => askAll(stages, asks, head, known));
}

/** A function that a processor returned from `admit`, to be called when the request is answered. */
type Release = { readonly edge: ProcessorEdge; readonly call: () => void };

/** Asks every processor that admits, in order. If one refuses, the admissions of the others are released. */
function askAll(
  stages: PipelineStages,
  asks: Purpose['asks'],
  head: RequestHead,
  tenant: Tenant,
): Promise<Admission> | Admission {
  const releases: Release[] = [];
  const steps = stages.requestSteps;
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i];
    if (step?.processor[asks] === undefined) continue;
    try {
      const call = step.processor[asks](head, tenant);
      if (isPromise(call)) return askRest(steps.slice(i), asks, head, tenant, releases, call);
      if (call !== undefined) releases.push({ edge: step.edge, call });
    } catch (error) {
      releaseAll(releases);
      throw attributed(tenant, error);
    }
  }
  return admitted(tenant, releases);
}

/** `askAll` from the first processor on that has to wait; `pending` is its answer. */
async function askRest(
  steps: readonly RequestStep[],
  asks: Purpose['asks'],
  head: RequestHead,
  tenant: Tenant,
  releases: Release[],
  pending: Promise<(() => void) | undefined>,
): Promise<Admission> {
  let asked: Promise<(() => void) | undefined> | undefined = pending;
  try {
    for (const step of steps) {
      const call = await (asked ?? step.processor[asks]?.(head, tenant));
      asked = undefined;
      if (call !== undefined) releases.push({ edge: step.edge, call });
    }
  } catch (error) {
    releaseAll(releases);
    throw attributed(tenant, error);
  }
  return admitted(tenant, releases);
}

function admitted(tenant: Tenant, releases: Release[]): Admission {
  return { tenant, release: () => releaseAll(releases) };
}

/** Counts the request on the receiver's edge until its admission is released. */
function inFlight(edge: ReceiverEdge, { tenant, release }: Admission): Admission {
  edge.inFlight++;
  let isReleased = false;
  return {
    tenant,
    release() {
      if (isReleased) return;
      isReleased = true;
      edge.inFlight--;
      release();
    },
  };
}

/** In reverse order. All are called, also if one throws. */
function releaseAll(releases: Release[]): void {
  for (let release = releases.pop(); release !== undefined; release = releases.pop()) {
    try {
      release.call();
    } catch (error) {
      release.edge.fault(error);
    }
  }
}

function isPromise<T>(value: Promise<T> | T): value is Promise<T> {
  return value instanceof Promise;
}
