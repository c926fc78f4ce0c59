import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { nativeProtocol } from '../../src/http/native-protocol.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import type { RunsConfig } from './config.ts';
import { infoRoute, multipartRoute } from './info.ts';

/**
 *   POST  /api/v1/runs        one creation ─┐ wrapped into a batch of one
 *   PATCH /api/v1/runs/:id    one update   ─┤
 *   POST  /api/v1/runs/batch  {post, patch} ┴▶ src/http/ingest.ts ─▶ pipeline ─▶ 202, native envelope
 *   GET   /api/v1/info        what LangSmith's clients request before they send
 */
export function createReceiver(
  settings: Settings,
  config: RunsConfig,
  pipeline: Pipeline,
): Receiver {
  const creation = nativeProtocol('runs', () => ({}));
  const update = nativeProtocol('runs', ({ params }) => ({ pathId: params.id ?? '' }));
  const batch = nativeProtocol('runs');
  return httpReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    pipeline,
    fallback: projectTenant(config.project),
    ingestRoutes: [
      { method: 'POST', path: '/api/v1/runs', protocol: creation },
      { method: 'PATCH', path: '/api/v1/runs/:id', protocol: update },
      { method: 'POST', path: '/api/v1/runs/batch', protocol: batch },
    ],
    otherRoutes: [infoRoute, multipartRoute],
  });
}
