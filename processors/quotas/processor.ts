import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import type { Tenant } from '../../src/model/batch.ts';
import { measure } from '../../src/model/formats.ts';
import type { RequestContext } from '../../src/model/request-context.ts';
import type { QuotaVerdict, Reservation } from '../../src/tenancy/contract.ts';
import type { QuotasConfig } from './config.ts';
import type { KeyVerdict } from './edge-limits.ts';
import { addressLimits } from './edge-limits.ts';
import { openingOf } from './opening.ts';
import { refusals } from './refusals.ts';

/**
 *   (authentication) ─ failed ─▶ too many failures of the address? ─▶ 429 instead of 401
 *        └─▶ month or hour used up? ─▶ key: rate, in flight ─▶ body, validation
 *        ─▶ reserve the accepted items ─▶ durable? ── yes ─▶ confirmed
 *                                  └─ no room for all: refused     └──── no ──▶ cancelled
 *
 * A reading request passes the limits of its key only: month and hour count accepted events.
 */
export function createProcessor(settings: Settings, config: QuotasConfig): RequestProcessor {
  const { clock, metrics } = settings;
  const addresses = addressLimits(config.edge.failed_authentications, clock);
  const refuse = refusals(metrics, clock);
  const opening = openingOf(settings, config);

  function admitTenant(verdict: QuotaVerdict, tenant: Tenant) {
    if (!verdict.admitted) throw refuse.usedUp(verdict);
    return admitKey(tenant);
  }

  function admitKey({ keyId }: Tenant) {
    const key = opening.parts().keys.admit(keyId);
    return key instanceof Promise ? key.then(admitted) : admitted(key);
  }

  function admitted(key: KeyVerdict): (() => void) | undefined {
    if (!key.admitted) throw refuse.key(key);
    return key.release;
  }

  function take(verdict: QuotaVerdict, { usage }: Reservation, request: RequestContext): undefined {
    if (!verdict.admitted) throw refuse.noRoom(verdict);
    const { at, epoch } = verdict;
    request.reserved = { ...usage, at, ...(epoch === undefined ? {} : { epoch }) };
    return undefined;
  }

  return {
    start: opening.start,
    shutdown: opening.close,
    authenticationFailed({ remoteAddress }) {
      const wait = addresses.failed(remoteAddress);
      if (wait > 0) throw refuse.address(wait);
    },
    admit(head, tenant) {
      const { counters, allowance } = opening.parts();
      const limits = allowance.limits(tenant.projectId);
      const verdict = counters.peek(tenant, limits, head.receivedAt);
      if (verdict instanceof Promise) return verdict.then((known) => admitTenant(known, tenant));
      return admitTenant(verdict, tenant);
    },
    admitRead: (_head, tenant) => admitKey(tenant),
    process(batch, request) {
      if (batch.items === 0) return undefined;
      const { counters, allowance, report } = opening.parts();
      const { id: batchId, tenant, receivedAt: at } = batch;
      report.note(tenant.organizationId);
      const reservation: Reservation = { batchId, tenant, usage: measure(batch), at };
      const verdict = counters.reserve(reservation, allowance.limits(tenant.projectId));
      if (verdict instanceof Promise)
        return verdict.then((known) => take(known, reservation, request));
      return take(verdict, reservation, request);
    },
    settle({ id: batchId, tenant, receivedAt: at }, outcome, request) {
      const { reserved, isUsageEntered } = request;
      if (reserved === undefined) return;
      request.reserved = undefined;
      const reservation: Reservation = { batchId, tenant, usage: reserved, at };
      opening.parts().counters.settle(reservation, outcome === 'durable', isUsageEntered);
    },
  };
}
