import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { nativeProtocol } from '../../src/http/native-protocol.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import type { NativeConfig } from './config.ts';

/**
 *   POST /api/v1/observations/batch ─▶ src/http/ingest.ts ─▶ pipeline ─▶ 202 with the native envelope
 */
export function createReceiver(
  settings: Settings,
  config: NativeConfig,
  pipeline: Pipeline,
): Receiver {
  const path = '/api/v1/observations/batch';
  return httpReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    pipeline,
    fallback: projectTenant(config.project),
    ingestRoutes: [{ method: 'POST', path, protocol: nativeProtocol('native') }],
  });
}
