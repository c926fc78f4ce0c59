import { createHash } from 'node:crypto';
import type { DurableQueue, QueueStorage } from '../../src/queue/queue.ts';
import type { Store } from '../../src/store/store.ts';

/** A queue of a file, with its branches. */
export type QueueNames = { readonly name: string; readonly branches: readonly string[] };

const DAY = 86_400_000;
const LIMIT = 1000;

/** Everything that a store returns to its readers, as JSON. `now` bounds the usage. */
export async function storeSnapshot(store: Store, now: number, queues: readonly QueueNames[]) {
  const projects = await store.projects.list();
  const tenancy = {
    organization: await store.organization.get(),
    projects,
    ownLimits: [...(await store.projects.ownLimits())],
    keys: await store.keys.list(),
    usage: await store.usage.history({ from: now - 40 * DAY, to: now + DAY, by: 'hour' }),
    audit: (await store.audit.list({ limit: LIMIT })).items,
  };
  const contents = await Promise.all(
    projects.map(async ({ id }) => ({
      project: id,
      rejections: (await store.rejections.list(id, { limit: LIMIT })).items,
      inForce: await store.counters.read(projects[0]?.organizationId ?? '', id),
      traces: await tracesOf(store, id),
    })),
  );
  return plain({ ...tenancy, contents, queues: await queueSnapshots(store, queues) });
}

async function tracesOf(store: Store, project: string) {
  const { items } = await store.traces.listTraces(project, { limit: LIMIT });
  return Promise.all(
    items.map(async (trace) => {
      const page = await store.traces.listObservations(project, trace.id, { limit: LIMIT });
      const ids = page.items
        .flatMap(({ payload }) => Object.values(payload))
        .map((ref) => ref.batchId);
      const batches = await store.traces.getBatches(project, [...new Set(ids)].sort());
      return {
        trace,
        observations: page.items,
        batches: batches.map(({ id, body }) => ({ id, body: digest(body) })),
      };
    }),
  );
}

/** The entries of every branch with their bodies, and the dead letters. The leases end with the process. */
export async function queueSnapshots(storage: QueueStorage, queues: readonly QueueNames[]) {
  const snapshots = [];
  for (const { name, branches } of queues) {
    const queue = await storage.openQueue({ name, branches, maxBytes: 1e12 });
    const { bytes, deadLetters, deadLetterItems, quarantined, ...stats } = queue.stats();
    snapshots.push({
      name,
      ...{ bytes, deadLetters, deadLetterItems, quarantined },
      branches: stats.branches.map(({ branch, entries, items }) => ({ branch, entries, items })),
      letters: await queue.deadLetters(),
      waiting: await Promise.all(branches.map((branch) => waitingIn(queue, branch))),
    });
  }
  return plain(snapshots);
}

async function waitingIn(queue: DurableQueue, branch: string) {
  const entries = await queue.lease(branch, LIMIT, 1e12);
  // Projects take turns in a lease; releases before that leased in the order of arrival.
  return [...entries]
    .sort((a, b) => a.seq - b.seq)
    .map(({ seq, attempts, batch }) => {
      const { id, format, encoding, tenant, receivedAt, usage, positions, rejections } = batch;
      const { projectId, keyId } = tenant;
      return {
        ...{ seq, attempts, id, format, encoding, projectId, keyId, receivedAt, usage },
        ...{ positions: positions ?? null, rejections, body: digest(batch.body) },
      };
    });
}

/** Delivers every waiting entry and every dead letter of the queues; resolves with their number. */
export async function deliverAll(
  store: QueueStorage,
  queues: readonly QueueNames[],
): Promise<number> {
  let delivered = 0;
  for (const { name, branches } of queues) {
    const queue = await store.openQueue({ name, branches, maxBytes: 1e12 });
    await queue.replay('all');
    for (const branch of branches) {
      const entries = await queue.lease(branch, 1000, 1e12);
      await queue.ack(branch, entries);
      delivered += entries.length;
    }
  }
  return delivered;
}

function digest(bytes: Uint8Array): string {
  return `${bytes.byteLength} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`;
}

/** Drops what JSON does not hold, so that a snapshot equals the one that was read from a file. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
