import type { Test } from 'tap';
import type { Offer } from '../../src/component/capability.ts';
import { offer } from '../../src/component/capability.ts';
import type { Permission } from '../../src/model/batch.ts';
import { Refusal } from '../../src/model/errors.ts';
import type { Store } from '../../src/store/store.ts';
import { STORE } from '../../src/store/store.ts';
import { aTenant } from './batches.ts';
import { testListeners, USUAL_LIMITS, urlOf } from './http.ts';
import { sqlitePlace } from './places.ts';
import { createSink, sinkPipeline } from './sink.ts';

/** The status and the JSON of an answer; undefined without a body. */
type JsonAnswer = { readonly status: number; readonly json: unknown };

export type ClientListener = {
  readonly store: Store;
  readonly url: string;
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<JsonAnswer>;
};

/** A listener with a store, for the requests of other services' clients. */
export async function clientListener(
  t: Test,
  {
    permissions = ['ingest:write', 'traces:read'],
    hasStore = true,
    scoresPerTrace = 100,
    offers = [],
  }: {
    permissions?: readonly Permission[];
    hasStore?: boolean;
    scoresPerTrace?: number;
    /** Of the pipeline, beside the store. */
    offers?: readonly Offer[];
  } = {},
): Promise<ClientListener> {
  const { store, close } = await sqlitePlace(t).open();
  const listeners = testListeners(undefined, undefined, { scores_per_trace: scoresPerTrace });
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '', permissions });
  const pipeline = sinkPipeline(createSink(), {
    offers: hasStore ? [offer(STORE, store), ...offers] : offers,
    admitRead(_head, _fallback, permission = 'traces:read') {
      if (!permissions.includes(permission)) throw new Refusal('forbidden', `No ${permission}.`);
      return { tenant, release() {} };
    },
  });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
    await close();
  });
  const url = urlOf(listener);
  return {
    store,
    url,
    async call(method, path, body, headers = { 'content-type': 'application/json' }) {
      const answer = await fetch(url + path, {
        ...{ method, headers },
        ...(body === undefined
          ? {}
          : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await answer.text();
      return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) };
    },
  };
}
