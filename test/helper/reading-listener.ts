import type { Test } from 'tap';
import { offer } from '../../src/component/capability.ts';
import type { ReadLimits } from '../../src/read/reads.ts';
import { STORE } from '../../src/store/store.ts';
import { aTenant } from './batches.ts';
import { testListeners, USUAL_LIMITS, urlOf } from './http.ts';
import { sqlitePlace } from './places.ts';
import { createSink, sinkPipeline } from './sink.ts';

/** A listener whose pipeline names a SQLite store. */
export async function readingListener(t: Test, limits: Partial<ReadLimits> = {}) {
  const { store, close, finish } = await sqlitePlace(t).open();
  const listeners = testListeners(undefined, undefined, limits);
  const tenant = aTenant();
  const pipeline = sinkPipeline(createSink(), {
    offers: [offer(STORE, store)],
    admitRead: () => ({ tenant, release() {} }),
  });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
    await close();
  });
  const get = async (path: string) => {
    const answer = await fetch(`${urlOf(listener)}/api/v1${path}`);
    const text = await answer.text();
    return { status: answer.status, text, json: JSON.parse(text) as Record<string, unknown> };
  };
  return { store, finish, get };
}
