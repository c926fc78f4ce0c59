import type { Processor, Settings } from '../../src/component/component.ts';
import type { RawBatch, Tenant } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { hasItems, measure } from '../../src/model/formats.ts';
import { STORE } from '../../src/store/store.ts';
import type { QuotaVerdict, Reservation, UsageCounters } from '../../src/store/tenancy.ts';
import { USAGE_COUNTERS } from '../../src/store/tenancy.ts';
import { HEALTH_REGISTRY } from '../../src/telemetry/health.ts';
import { addressLimits } from './address-limits.ts';
import type { Allowance } from './allowance.ts';
import { fixedAllowance, planAllowance } from './allowance.ts';
import type { QuotasConfig } from './config.ts';
import { keyLimits } from './key-limits.ts';
import type { QuotaReport } from './quota-report.ts';
import { quotaReport } from './quota-report.ts';
import { refusals } from './refusals.ts';

/**
 *   address: too many failures? ─▶ (authentication) ─▶ month or hour used up? ─▶ key: rate, in flight
 *        ─▶ body, validation ─▶ reserve what is accepted, whole ─▶ durable? ── yes ─▶ it stays counted
 *                                  └─ no room: refused               └──── no ──▶ given back
 */
export function createQuotasProcessor(settings: Settings, config: QuotasConfig): Processor {
  const { clock, metrics } = settings;
  const addresses = addressLimits(config.edge.failed_authentications, clock);
  const keys = keyLimits(config.edge, clock);
  const refuse = refusals(metrics, clock);
  const reservations = new WeakMap<RawBatch, Reservation>();
  let parts: Parts | undefined;

  function opened(): Parts {
    if (parts === undefined) throw new RetryableError('starting', `${settings.id} is not started`);
    return parts;
  }

  function admitKey(verdict: QuotaVerdict, { keyId }: Tenant): (() => void) | undefined {
    if (!verdict.admitted) throw refuse.quota(verdict, true);
    const key = keys.admit(keyId);
    if (!key.admitted) throw refuse.key(key);
    return key.release;
  }

  function take(verdict: QuotaVerdict, batch: RawBatch, reservation: Reservation): RawBatch {
    if (!verdict.admitted) throw refuse.quota(verdict, false);
    batch.usage = reservation.usage;
    batch.usageAt = verdict.at;
    reservations.set(batch, reservation);
    return batch;
  }

  return {
    async start() {
      parts = await openParts(settings, config);
    },
    async shutdown() {
      parts?.report.close();
      parts?.allowance.close();
    },
    admitUnauthenticated({ remoteAddress }) {
      const wait = addresses.wait(remoteAddress);
      if (wait > 0) throw refuse.address(wait);
    },
    authenticationFailed({ remoteAddress }) {
      addresses.failed(remoteAddress);
    },
    admit(head, tenant) {
      const { counters, allowance } = opened();
      const limits = allowance.limits(tenant.projectId);
      const verdict = counters.peek(tenant, limits, head.receivedAt);
      if (verdict instanceof Promise) return verdict.then((known) => admitKey(known, tenant));
      return admitKey(verdict, tenant);
    },
    process(batch) {
      // What was counted before, or comes out of a queue, is not counted again.
      if (batch.kind !== 'raw' || !hasItems(batch) || batch.usage.events > 0) return batch;
      const { counters, allowance, report } = opened();
      const { id: batchId, tenant, receivedAt: at } = batch;
      report.note(tenant.organizationId);
      const reservation: Reservation = { batchId, tenant, usage: measure(batch), at };
      const verdict = counters.reserve(reservation, allowance.limits(tenant.projectId));
      if (verdict instanceof Promise)
        return verdict.then((known) => take(known, batch, reservation));
      return take(verdict, batch, reservation);
    },
    settle(batch, outcome) {
      const reservation = reservations.get(batch);
      if (reservation === undefined) return;
      reservations.delete(batch);
      parts?.counters.settle(reservation, outcome === 'durable');
    },
  };
}

type Parts = {
  readonly counters: UsageCounters;
  readonly allowance: Allowance;
  readonly report: QuotaReport;
};

async function openParts(settings: Settings, config: QuotasConfig): Promise<Parts> {
  const { host, metrics } = settings;
  const { store, storage } = config;
  const counters = host.extension(store ?? storage ?? '', USAGE_COUNTERS);
  const allowance =
    store === undefined
      ? fixedAllowance(config)
      : await planAllowance(host.extension(store, STORE), config, settings);
  const report = quotaReport(counters, allowance, metrics);
  host.service(HEALTH_REGISTRY).register(settings.id, report.health);
  return { counters, allowance, report };
}
