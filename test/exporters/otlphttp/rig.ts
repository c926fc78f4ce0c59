import type { Test } from 'tap';
import { factory } from '../../../exporters/otlphttp/factory.ts';
import { offer } from '../../../src/component/capability.ts';
import type { Exporter } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { QUEUE_STORAGE, type QueueAdmin } from '../../../src/queue/queue.ts';
import { createQueues, QUEUE_REGISTRY } from '../../../src/queue/registry.ts';
import { openDirectoryStorage } from '../../../src/sqlite/queue/directory-storage.ts';
import { nativeEvent } from '../../helper/batches.ts';
import { type FakeClock, fakeClock } from '../../helper/clock.ts';
import { type OtlpServer, startOtlpServer } from '../../helper/otlp-server.ts';
import { fakeHost, type TestSettings, testSettings } from '../../helper/settings.ts';

export type Rig = {
  readonly server: OtlpServer;
  readonly exporter: Exporter;
  readonly clock: FakeClock;
  readonly settings: TestSettings;
  readonly health: ReturnType<typeof createHealth>;
  queue(): QueueAdmin;
  stop(): Promise<void>;
};

export type RigOptions = {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly queue?: Readonly<Record<string, unknown>> | false;
  readonly server?: OtlpServer;
  readonly directory?: string;
  readonly clock?: FakeClock;
};

/** The exporter between a queue on disk and a real server. */
export async function rigOf(t: Test, options: RigOptions = {}): Promise<Rig> {
  const clock = options.clock ?? fakeClock();
  const server = options.server ?? (await startOtlpServer(t));
  const health = createHealth(clock);
  const queues = createQueues();
  const base = testSettings('exporter', 'otlphttp', { clock });
  const isQueued = options.queue !== false;
  const storage = isQueued
    ? await openDirectoryStorage({
        directory: options.directory ?? t.testdir(),
        createDirectory: true,
        minFreeBytes: 0,
        reserveBytes: 0,
        clock,
        logger: base.logger,
      })
    : undefined;
  const host = fakeHost({
    services: [offer(HEALTH_REGISTRY, health), offer(QUEUE_REGISTRY, queues)],
    extensions: { file_storage: storage === undefined ? [] : [offer(QUEUE_STORAGE, storage)] },
  });
  const settings = { ...base, host };
  const config = factory.config.parse({
    endpoint: server.url,
    ...options.config,
    sending_queue: isQueued
      ? { storage: 'file_storage', ...(options.queue as object) }
      : { enabled: true },
  });
  const exporter = await factory.create(settings, config);
  await exporter.start();
  let isStopped = false;
  const stop = async (): Promise<void> => {
    if (isStopped) return;
    isStopped = true;
    await exporter.shutdown(AbortSignal.abort());
    await storage?.close();
  };
  t.teardown(stop);
  const queue = (): QueueAdmin => {
    const found = queues.all.get('otlphttp');
    if (found === undefined) throw new Error('the exporter has no queue');
    return found;
  };
  return { server, exporter, clock, settings, health, queue, stop };
}

export const isEmpty = ({ queue }: Rig) => queue().stats().branches[0]?.entries === 0;
export const deadLettersOf = ({ queue }: Rig) => queue().deadLetters();

/** The start of an observation. */
export const start = (id: string, more = {}) =>
  nativeEvent({
    id,
    operation: 'start',
    status: 'running',
    end_time: null,
    outputs: null,
    ...more,
  });
/** Its finish, without the fields of the start. */
export const finish = (id: string, more = {}) =>
  nativeEvent({ id, inputs: null, start_time: null, ...more });
