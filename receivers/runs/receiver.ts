import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { nativeProtocol } from '../../src/http/native-protocol.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import type { RunsConfig } from './config.ts';
import { INFO_ROUTES } from './info.ts';
import { multipartProtocol } from './multipart.ts';

/**
 *   POST  /api/v1/runs            one creation ─┐ wrapped into a batch of one
 *   PATCH /api/v1/runs/:id        one update   ─┤
 *   POST  /api/v1/runs/multipart  parts        ─┤ put together into a batch
 *   POST  /api/v1/runs/batch      {post, patch} ┴▶ src/http/ingest.ts ─▶ pipeline ─▶ 202, native envelope
 *   GET   /api/v1/info            what LangSmith's clients request before they send
 *
 * The same paths without `/api/v1` are for clients whose endpoint is the address alone, as that of LangSmith is.
 */
export function createReceiver(
  settings: Settings,
  config: RunsConfig,
  pipeline: Pipeline,
): Receiver {
  const { max_bytes, per_run, per_request, request_bytes } = config.attachments;
  const attachments = {
    ...{ maxBytes: max_bytes, perRun: per_run },
    ...{ perRequest: per_request, requestBytes: request_bytes },
  };
  const creation = nativeProtocol('runs', () => ({}));
  const update = nativeProtocol('runs', ({ params }) => ({ pathId: params.id ?? '' }));
  const routes = [
    { method: 'POST', path: '/runs', protocol: creation },
    { method: 'PATCH', path: '/runs/:id', protocol: update },
    { method: 'POST', path: '/runs/batch', protocol: nativeProtocol('runs') },
    { method: 'POST', path: '/runs/multipart', protocol: multipartProtocol(settings, attachments) },
  ];
  return httpReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    pipeline,
    fallback: projectTenant(config.project),
    ingestRoutes: [
      ...routes.map((route) => ({ ...route, path: `/api/v1${route.path}` })),
      ...routes.map((route) => ({ ...route, hidden: true })),
    ],
    otherRoutes: INFO_ROUTES,
  });
}
