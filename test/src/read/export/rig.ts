import type { IncomingMessage } from 'node:http';
import { get as httpGet } from 'node:http';
import type { Test } from 'tap';
import { offer } from '../../../../src/component/capability.ts';
import type { Clock } from '../../../../src/component/component.ts';
import type { ReadLimits } from '../../../../src/read/reads.ts';
import { observationJson } from '../../../../src/store/observation-json.ts';
import type { Store, TraceStore } from '../../../../src/store/store.ts';
import { STORE } from '../../../../src/store/store.ts';
import { fakeTraces, type HeldTraces } from '../../../helper/fake-traces.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../../helper/http.ts';
import { createSink, sinkPipeline } from '../../../helper/sink.ts';

export type Exported = {
  readonly status: number;
  readonly type: string;
  readonly bytes: Buffer;
  readonly text: string;
  /** The answer has ended, and was not cut. */
  readonly isWhole: boolean;
  readonly rows: number;
  readonly isComplete: boolean;
  readonly next: string | undefined;
  readonly error: string | undefined;
};

type Options = {
  readonly limits?: Partial<ReadLimits>;
  /** In place of the methods of the store in memory. */
  readonly traces?: Partial<TraceStore>;
  readonly clock?: Clock;
};

/** The method of a store that makes the lines of an export itself. */
export function madeLines(held: HeldTraces): Required<Pick<TraceStore, 'listLinesOf'>> {
  const traces = fakeTraces(() => 'proj_test', held);
  return {
    async listLinesOf(projectId, traceIds, { limit, cursor }) {
      const page =
        cursor === undefined
          ? await traces.listObservationsOf?.(projectId, traceIds, limit)
          : await traces.listObservations?.(projectId, traceIds[0] ?? '', { limit, cursor });
      if (page === undefined) throw new Error('the store lists no observations');
      let text = '';
      const items = page.items.map((observation) => {
        text += `${observationJson(observation, undefined)}\n`;
        return { traceId: observation.traceId, end: Buffer.byteLength(text) };
      });
      return { ...page, items, text: Buffer.from(text) };
    },
  };
}

/** A listener over a store in memory, whose data belong to the project of the key. */
export async function exporting(
  t: Test,
  held: HeldTraces,
  { limits, traces, clock }: Options = {},
) {
  const listeners = testListeners(undefined, clock, limits);
  const store = {
    traces: { ...fakeTraces(() => 'proj_test', held), ...traces },
  } as Partial<Store> as Store;
  const pipeline = sinkPipeline(createSink(), { offers: [offer(STORE, store)] });
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, {
    pipeline,
    fallback: undefined,
  });
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  const open = (parameters: Readonly<Record<string, string>>): Promise<IncomingMessage> => {
    const url = `${urlOf(listener)}/api/v1/export?${new URLSearchParams(parameters)}`;
    return new Promise((resolve, reject) => {
      httpGet(url, resolve).once('error', reject);
    });
  };
  return {
    listeners,
    open,
    get: async (parameters: Readonly<Record<string, string>> = {}) => read(await open(parameters)),
    /** Cuts the connection behind this many bytes. */
    cut: async (parameters: Readonly<Record<string, string>>, bytes: number) =>
      read(await open(parameters), bytes),
  };
}

export async function read(answer: IncomingMessage, most = Infinity): Promise<Exported> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of answer) {
      const taken = (chunk as Buffer).subarray(0, most - length);
      chunks.push(taken);
      length += taken.length;
      if (length >= most) break;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
  }
  const bytes = Buffer.concat(chunks);
  const { trailers, headers } = answer;
  const text = (name: string): string | undefined => {
    const value = trailers[`tracectl-export-${name}`];
    return value === undefined || length >= most ? undefined : String(value);
  };
  return {
    status: answer.statusCode ?? 0,
    type: headers['content-type'] ?? '',
    bytes,
    text: bytes.toString(),
    isWhole: answer.complete,
    rows: Number(text('rows')),
    isComplete: text('complete') === 'true',
    next: text('next'),
    error: text('error'),
  };
}

export function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
