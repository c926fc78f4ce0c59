import type { QuotasConfig } from '../../../processors/quotas/config.ts';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import { createProcessor as createQuotasProcessor } from '../../../processors/quotas/processor.ts';
import { offer } from '../../../src/component/capability.ts';
import type { RequestProcessor } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import type { ReceivedBatch } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import type { RequestContext } from '../../../src/model/request-context.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { UsageCounters } from '../../../src/tenancy/contract.ts';
import { USAGE_COUNTERS } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import { memoryCounters, memoryOrganization, memoryProjects } from '../../helper/counters.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { aHead } from '../../helper/sink.ts';

export const NOON = Date.UTC(2026, 0, 15, 12, 0, 0);
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

export type Written = Omit<Partial<QuotasConfig>, 'edge'> & { edge?: unknown };

/** A started processor, with counters and an organization in memory. */
export async function quotas(
  written: Written = {},
  plan: Parameters<typeof memoryOrganization>[0] = {},
  start: number = NOON,
  given: { clock?: FakeClock; counters?: UsageCounters } = {},
) {
  const clock = given.clock ?? fakeClock(start);
  const counters = memoryCounters();
  const organization = memoryOrganization(plan);
  const projects = memoryProjects();
  const health = createHealth(clock);
  const store = { organization: organization.store, projects: projects.store } as Store;
  const ledger = offer(USAGE_COUNTERS, given.counters ?? counters);
  const settings = testSettings('processor', 'quotas', {
    clock,
    host: fakeHost({
      services: [offer(HEALTH_REGISTRY, health)],
      extensions: {
        sqlite: [offer(STORE, store), ledger],
        file_storage: [ledger],
      },
    }),
  });
  const place = written.storage === undefined ? { store: 'sqlite' } : {};
  const config = quotasConfig.parse({ ...place, ...written });
  const processor = createQuotasProcessor(settings, config);
  await processor.start();
  return { clock, counters, organization, projects, health, settings, processor };
}

export type Quotas = Awaited<ReturnType<typeof quotas>>;

export function batchAt(clock: { now(): number }, events = 1): ReceivedBatch {
  return received(nativeBatch(events, { receivedAt: clock.now() }));
}

const requests = new WeakMap<ReceivedBatch, RequestContext>();

/** The request behind a batch, the same one for every call. */
export function requestOf(batch: ReceivedBatch): RequestContext {
  const request = requests.get(batch) ?? requestContext();
  requests.set(batch, request);
  return request;
}

type WithProcessor = { readonly processor: RequestProcessor };

export const process = ({ processor }: WithProcessor, batch: ReceivedBatch) =>
  processor.process?.(batch, requestOf(batch));

export const settle = (
  { processor }: WithProcessor,
  batch: ReceivedBatch,
  outcome: 'durable' | 'failed',
) => processor.settle?.(batch, outcome, requestOf(batch));

/** Resolves with `ok`, or with the code of the refusal. */
export async function send(q: WithProcessor, batch: ReceivedBatch): Promise<string> {
  try {
    await process(q, batch);
    return 'ok';
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

export async function refusalOf(work: () => unknown): Promise<Refusal> {
  try {
    await work();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('the request was not refused');
}

export const admitRead = ({ processor, clock }: Quotas, keyId = 'key_test') =>
  processor.admitRead?.(aHead({ receivedAt: clock.now() }), aTenant({ keyId }));

export const admit = ({ processor, clock }: Quotas, keyId = 'key_test') =>
  processor.admit?.(aHead({ receivedAt: clock.now() }), aTenant({ keyId }));
