import type { Test } from 'tap';
import { createService } from '../../../src/engine/service.ts';
import { aTenant } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { type fakeParts, serviceConfig } from '../../helper/service.ts';
import { recordingLogger } from '../../helper/settings.ts';

export const auth = { authenticate: () => aTenant() };

/** A service of one receiver in front of the given processors and exporters, started. */
export async function running(
  t: Test,
  parts: ReturnType<typeof fakeParts>,
  declared: Parameters<typeof serviceConfig>[0],
  pipelines: Record<string, string>,
  timeout?: number,
) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const config = serviceConfig(declared, pipelines, timeout);
  const service = await createService({ config, clock, logger });
  t.teardown(() => service.shutdown());
  await service.start();
  const pipelineOf = (id: string) => {
    const pipeline = parts.pipelines.get(id)?.at(-1);
    if (pipeline === undefined) throw new Error(`${id} was given no pipeline`);
    return pipeline;
  };
  return { service, clock, logger, pipelineOf };
}

/** The value of a sample in Prometheus' text, in any order of its labels. */
export function point(text: string, name: string, labels: Record<string, string>): number {
  for (const line of text.split('\n')) {
    const match = /^(\w+)\{(.*)\} (\S+)$/.exec(line);
    if (match === null || match[1] !== name) continue;
    if (Object.entries(labels).every(([key, value]) => match[2]?.includes(`${key}="${value}"`))) {
      return Number(match[3]);
    }
  }
  return 0;
}
