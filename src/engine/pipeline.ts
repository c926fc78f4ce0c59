import type { Admission, Pipeline, Processor, RequestHead } from '../component/component.ts';
import type { Batch, Permission, SealedBatch, Tenant } from '../model/batch.ts';
import { itemsOf, rawOf } from '../model/batch.ts';
import { Refusal, tooLate } from '../model/errors.ts';
import { cutRejected, measure } from '../model/formats.ts';
import type { ProcessorEdge, ReceiverEdge } from './edges.ts';
import type { Sink } from './fanout.ts';
import { fanOut } from './fanout.ts';

export type Step = {
  readonly processor: Processor;
  readonly edge: ProcessorEdge;
  /** It makes observations of raw items: what was rejected must be out of the body before. */
  readonly normalizes: boolean;
};

/** The components of one pipeline, in one generation of the graph. */
export type Chain = {
  readonly steps: readonly Step[];
  readonly sinks: readonly Sink[];
  /** Batches that are on their way through it. */
  active: number;
  /** Called when the last of them is through. */
  onIdle: (() => void) | undefined;
};

/**
 * A pipeline that outlives its components: receivers and connectors hold it, a reload exchanges the chain
 * in it. While `gate` is set, whoever comes waits for the exchange.
 */
export type Line = {
  readonly id: string;
  chain: Chain;
  gate: Promise<void> | undefined;
};

/**
 * A line as one receiver or connector sees it, with its own counts.
 *
 *   admit(head) ──▶ authenticate ──▶ permission ──▶ every processor that admits
 *   consume(batch) ──▶ processors ──▶ seal ──▶ exporters ──▶ settle
 */
export function createPipeline(line: Line, edge: ReceiverEdge, seals: boolean): Pipeline {
  return {
    id: line.id,
    authenticate: (head, permission, fallback) => {
      if (line.gate !== undefined) {
        return line.gate.then(() => authenticate(line.chain, head, permission, fallback));
      }
      return authenticate(line.chain, head, permission, fallback);
    },
    admit: (head, fallback) => {
      if (line.gate !== undefined) return line.gate.then(() => admit(line, edge, head, fallback));
      return admit(line, edge, head, fallback);
    },
    async process(batch, again = false) {
      const chain = await enter(line);
      const done: Settled[] = [];
      try {
        const processed = await run(chain.steps, batch, done, false, !again);
        settle(done, 'durable');
        return processed;
      } catch (error) {
        settle(done, 'failed');
        throw error;
      } finally {
        leave(chain);
      }
    },
    async consume(batch) {
      const chain = await enter(line);
      const done: Settled[] = [];
      const raw = rawOf(batch);
      try {
        const processed = await run(chain.steps, batch, done, seals);
        if (raw.isGivenUp) throw tooLate();
        await fanOut(chain.sinks, processed);
      } catch (error) {
        edge.refused(itemsOf(raw), error);
        settle(done, 'failed');
        throw error;
      } finally {
        leave(chain);
      }
      edge.accepted(itemsOf(raw), raw.rejections);
      settle(done, 'durable');
    },
    get branches() {
      return line.chain.sinks;
    },
    get idempotency() {
      return line.chain.sinks.find(({ exporter }) => exporter.idempotency)?.exporter.idempotency;
    },
    get storeId() {
      return line.chain.steps.find(({ processor }) => processor.storeId)?.processor.storeId;
    },
    get answerWithin() {
      let least: number | undefined;
      for (const { exporter } of line.chain.sinks) {
        const { answerWithin } = exporter;
        if (answerWithin !== undefined) least = Math.min(answerWithin, least ?? answerWithin);
      }
      return least;
    },
  };
}

async function enter(line: Line): Promise<Chain> {
  while (line.gate !== undefined) await line.gate;
  line.chain.active++;
  return line.chain;
}

function leave(chain: Chain): void {
  chain.active--;
  if (chain.active === 0) chain.onIdle?.();
}

/** Resolves when nothing is on its way through the chain. */
export function drained(chain: Chain): Promise<void> {
  if (chain.active === 0) return Promise.resolve();
  return new Promise((resolve) => {
    chain.onIdle = resolve;
  });
}

function authenticate(
  chain: Chain,
  head: RequestHead,
  permission: Permission,
  fallback: Tenant | undefined,
): Promise<Tenant> | Tenant {
  for (const { processor } of chain.steps) processor.admitUnauthenticated?.(head);
  const step = chain.steps.find(({ processor }) => processor.authenticate !== undefined);
  try {
    const named = step === undefined ? fallback : step.processor.authenticate?.(head);
    if (named === undefined) {
      throw new Refusal('unauthorized', 'Nobody here can say whose data this is.');
    }
    if (!isPromise(named)) return permitted(named, permission);
    return named.then(
      (tenant) => permitted(tenant, permission),
      (error: unknown) => unauthenticated(chain, head, error),
    );
  } catch (error) {
    return unauthenticated(chain, head, error);
  }
}

/** Tells those who count failed authentications. */
function unauthenticated(chain: Chain, head: RequestHead, error: unknown): never {
  if (error instanceof Refusal && error.code === 'unauthorized') {
    for (const { processor } of chain.steps) processor.authenticationFailed?.(head);
  }
  throw error;
}

function permitted(tenant: Tenant, permission: Permission): Tenant {
  if (tenant.permissions.includes(permission)) return tenant;
  const message = `This key does not have the permission ${permission}.`;
  throw attributed(tenant, new Refusal('forbidden', message));
}

/** The same error, which now says whose request was refused. */
function attributed(tenant: Tenant, error: unknown): unknown {
  if (error instanceof Refusal) error.tenant ??= tenant;
  return error;
}

/** Stays synchronous for as long as no processor has to wait, which is the usual case. */
function admit(
  line: Line,
  edge: ReceiverEdge,
  head: RequestHead,
  fallback: Tenant | undefined,
): Promise<Admission> | Admission {
  try {
    const tenant = authenticate(line.chain, head, 'ingest:write', fallback);
    const admission = isPromise(tenant)
      ? tenant.then((known) => askAll(line.chain, edge, head, known))
      : askAll(line.chain, edge, head, tenant);
    if (!isPromise(admission)) return admission;
    return admission.catch((error: unknown) => {
      edge.turnedAway(error);
      throw error;
    });
  } catch (error) {
    edge.turnedAway(error);
    throw error;
  }
}

/** What a processor wants called when the request is over. */
type Release = { readonly edge: ProcessorEdge; readonly call: () => void };

/** Asks every processor that admits, in order; when one refuses, the others get back what they hold. */
function askAll(
  chain: Chain,
  edge: ReceiverEdge,
  head: RequestHead,
  tenant: Tenant,
): Promise<Admission> | Admission {
  const releases: Release[] = [];
  const { steps } = chain;
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i];
    if (step?.processor.admit === undefined) continue;
    try {
      const call = step.processor.admit(head, tenant);
      if (isPromise(call)) return askRest(steps.slice(i), edge, head, tenant, releases, call);
      if (call !== undefined) releases.push({ edge: step.edge, call });
    } catch (error) {
      releaseAll(releases);
      throw attributed(tenant, error);
    }
  }
  return admitted(edge, tenant, releases);
}

/** The same from a processor on that has to wait: `pending` is what it will answer. */
async function askRest(
  steps: readonly Step[],
  edge: ReceiverEdge,
  head: RequestHead,
  tenant: Tenant,
  releases: Release[],
  pending: Promise<(() => void) | undefined>,
): Promise<Admission> {
  let asked: Promise<(() => void) | undefined> | undefined = pending;
  try {
    for (const step of steps) {
      const call = await (asked ?? step.processor.admit?.(head, tenant));
      asked = undefined;
      if (call !== undefined) releases.push({ edge: step.edge, call });
    }
  } catch (error) {
    releaseAll(releases);
    throw attributed(tenant, error);
  }
  return admitted(edge, tenant, releases);
}

function admitted(edge: ReceiverEdge, tenant: Tenant, releases: Release[]): Admission {
  edge.inFlight++;
  let isReleased = false;
  return {
    tenant,
    release() {
      if (isReleased) return;
      isReleased = true;
      edge.inFlight--;
      releaseAll(releases);
    },
  };
}

/** In reverse order. One that fails must not keep the others from giving back what they hold. */
function releaseAll(releases: Release[]): void {
  for (let release = releases.pop(); release !== undefined; release = releases.pop()) {
    try {
      release.call();
    } catch (error) {
      release.edge.fault(error);
    }
  }
}

/** A processor that has to be told what became of the raw batch it worked on. */
type Settled = { readonly step: Step; readonly batch: SealedBatch };

/**
 * Runs the processors. `done` collects those that must be told the outcome, also when a later one
 * throws. The batch is sealed once, before it is normalized or after the last processor.
 */
async function run(
  steps: readonly Step[],
  given: Batch,
  done: Settled[],
  seals: boolean,
  counts = true,
): Promise<Batch> {
  let batch = given;
  let isSealed = !seals;
  for (const step of steps) {
    const { processor, edge, normalizes } = step;
    if (processor.process === undefined) continue;
    if (normalizes && !isSealed) {
      seal(batch);
      isSealed = true;
    }
    const incoming = itemsOf(batch);
    if (counts) edge.incoming(incoming);
    const before = rawOf(batch);
    const rejectedBefore = before.rejections.length;
    const unreadableBefore = unreadable(batch);
    const result = processor.process(batch, !counts);
    batch = isPromise(result) ? await result : result;
    if (processor.settle !== undefined) done.push({ step, batch: before });
    const outgoing = itemsOf(batch);
    const rejected = before.rejections.length - rejectedBefore;
    if (!counts) continue;
    edge.outgoing(outgoing);
    const setAside = unreadable(batch) - unreadableBefore;
    const dropped = incoming - rejected - outgoing - setAside;
    if (dropped > 0) edge.dropped(dropped);
  }
  if (!isSealed) seal(batch);
  return batch;
}

/** Items that could not be normalized: whoever delivers the batch sets them aside, so they are no drop. */
function unreadable(batch: Batch): number {
  return batch.kind === 'observations' ? (batch.failures?.length ?? 0) : 0;
}

/**
 * What the accepted items cost, and a body without the rejected ones: nothing refused is ever stored. What
 * was reserved against limits stays as it was reserved, so that the ledger says the same.
 */
function seal(batch: Batch): void {
  if (batch.kind !== 'raw') return;
  if (batch.usage.events === 0) batch.usage = measure(batch);
  cutRejected(batch);
}

function settle(done: readonly Settled[], outcome: 'durable' | 'failed'): void {
  for (const { step, batch } of done) {
    try {
      step.processor.settle?.(batch, outcome);
    } catch (error) {
      step.edge.fault(error);
    }
  }
}

function isPromise<T>(value: Promise<T> | T): value is Promise<T> {
  return value instanceof Promise;
}
