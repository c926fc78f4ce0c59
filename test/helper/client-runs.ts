import { Client } from 'langsmith/client';
import type { Test } from 'tap';
import { anObservation, aTenant, nativeBatch } from './batches.ts';
import { clientListener } from './client-listener.ts';

/** The start of the traces of `withTraces`, but for a second for each. */
export const T0 = Date.UTC(2026, 0, 15, 12);
export const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

/** Traces of a root, its child and the child of that one; the runs of trace n have the ids 10n to 10n + 2. */
export async function withTraces(t: Test, count: number) {
  const listener = await clientListener(t);
  const [project] = await listener.store.projects.list();
  const projectId = project?.id ?? '';
  for (let n = 1; n <= count; n++) {
    const events = [0, 1, 2].map((i) => ({
      ...{ id: uuid(10 * n + i), trace_id: uuid(10 * n), operation: 'finish', status: 'success' },
      ...{ kind: 'llm', inputs: i === 1 ? 'text' : { n, i }, outputs: [i] },
      metadata: { i },
    }));
    const source = nativeBatch(events, { tenant: aTenant({ projectId }) });
    const observations = events.map(({ id }, index) => {
      const startTime = { ms: T0 + 1000 * n + index, ns: 123_456 };
      const common = { id, index, startTime, traceId: uuid(10 * n), payloadMask: 0b01011 };
      const root = { ...common, name: 'root', kind: 'chain', sessionId: `session-${n}` } as const;
      if (index === 0) return anObservation(root);
      const error = index === 2 ? { message: 'boom', type: null, stacktrace: null } : null;
      const status = error === null ? 'success' : 'error';
      const parentId = uuid(10 * n + index - 1);
      return anObservation({ ...common, parentId, error, status, kind: 'llm', name: `c${index}` });
    });
    await listener.store.traces.write({ kind: 'observations', source, observations });
  }
  const client = new Client({ apiUrl: listener.url, apiKey: 'k', autoBatchTracing: false });
  const list = async (asked: Parameters<Client['listRuns']>[0]) => {
    const found = [];
    for await (const run of client.listRuns(asked)) found.push(run);
    return found;
  };
  return { ...listener, client, list, projectId };
}
