import { z } from 'zod';
import { pause } from '../component/clock.ts';
import { erasureRequest, queryMistake } from '../read/erasure-request.ts';
import type { Erasure, ErasureState } from '../store/erasures.ts';
import { moment } from './moment.ts';
import { ControlError, readArguments } from './protocol.ts';
import { projectFor, type StoreCommand, type StoreWork } from './store-work.ts';

/** An erasure in the admin API and in commands with `--json`. */
export type ShownErasure = {
  readonly id: string;
  readonly project_id: string;
  readonly q: string;
  readonly state: ErasureState;
  readonly dry_run: boolean;
  readonly block_until: string | null;
  readonly traces: number;
  readonly observations: number;
  readonly bytes: number;
  readonly requested_by: string;
  readonly requested_at: string;
  readonly finished_at: string | null;
  readonly failure: string | null;
  readonly receipt: ShownReceipt | null;
};

type ShownReceipt = {
  readonly traces: number;
  readonly observations: number;
  readonly bytes: number;
  readonly ids_hash: string;
  readonly unreadable_batches: number;
  readonly verified_at: string;
  readonly copies: readonly string[];
};

export function shownErasure(erasure: Erasure): ShownErasure {
  const { id, projectId, query, state, isDryRun, traces, observations, bytes, receipt } = erasure;
  return {
    ...{ id, project_id: projectId, q: query, state, dry_run: isDryRun },
    block_until: timeOrNull(erasure.blockUntil),
    ...{ traces, observations, bytes },
    requested_by: erasure.requestedBy,
    requested_at: time(erasure.requestedAt),
    finished_at: timeOrNull(erasure.finishedAt),
    failure: erasure.failure,
    receipt: receipt && {
      traces: receipt.traces,
      observations: receipt.observations,
      bytes: receipt.bytes,
      ids_hash: receipt.idsHash,
      unreadable_batches: receipt.unreadableBatches,
      verified_at: time(receipt.verifiedAt),
      copies: receipt.copies,
    },
  };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

function timeOrNull(milliseconds: number | null): string | null {
  return milliseconds === null ? null : time(milliseconds);
}

const createArguments = z.strictObject({
  project: z.string().optional(),
  q: z.string(),
  dry_run: z.boolean().optional(),
  block_until: moment.optional(),
});

const waitArguments = z.strictObject({
  project: z.string(),
  id: z.string(),
  /** The longest wait for the end. Without it the answer has the end. */
  wait_ms: z.int().min(0).max(30_000).optional(),
});

const listArguments = z.strictObject({ project: z.string().optional() });

/** The commands about erasures. */
export const ERASURE_COMMANDS = {
  'erasures.create': create,
  'erasures.wait': wait,
  'erasures.list': list,
} as const satisfies Record<string, StoreCommand>;

async function create({ store, by, clock }: StoreWork, args: unknown): Promise<ShownErasure> {
  const { project, ...asked } = readArguments(createArguments, args);
  const { id } = await projectFor(store, project);
  try {
    const request = erasureRequest(asked, clock.now());
    return shownErasure(await store.erasures.request(id, request, by));
  } catch (error) {
    const mistake = queryMistake(error);
    throw mistake === undefined ? error : new ControlError(mistake.code, mistake.message);
  }
}

/** The time between two looks at an erasure. */
const LOOK_MS = 100;

async function wait({ store, clock }: StoreWork, args: unknown): Promise<ShownErasure> {
  const {
    project,
    id,
    wait_ms: most = Number.MAX_SAFE_INTEGER,
  } = readArguments(waitArguments, args);
  const begun = clock.now();
  for (;;) {
    const erasure = await store.erasures.get(project, id);
    if (erasure === undefined) throw new ControlError('not_found', `no erasure ${id}`);
    if (erasure.state !== 'running' || clock.now() - begun >= most) return shownErasure(erasure);
    await pause(clock, LOOK_MS);
  }
}

async function list({ store }: StoreWork, args: unknown): Promise<ShownErasure[]> {
  const { project } = readArguments(listArguments, args);
  const { id } = await projectFor(store, project);
  const { items } = await store.erasures.list(id, { limit: 100 });
  return items.map(shownErasure);
}
