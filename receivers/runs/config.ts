import { z } from 'zod';
import { listenerFields, projectField } from '../../src/http/config.ts';
import { MAX_ATTACHMENTS } from '../../src/model/attachments.ts';
import { byteSize, endpoint } from '../../src/schema/fields.ts';
import { needsTrustedProxies } from '../../src/schema/trusted-proxies.ts';

const attachments = z
  .strictObject({
    max_bytes: byteSize('10MiB').describe('Most bytes of one attachment.'),
    per_run: z
      .int()
      .min(0)
      .max(MAX_ATTACHMENTS)
      .default(20)
      .describe('Most attachments of a run. 0: none is stored.'),
    per_request: z.int().min(0).default(200).describe('Most attachments of a request.'),
    request_bytes: byteSize('20MiB').describe('Most bytes of all attachments of a request.'),
  })
  .describe(
    'Limits of the attachments of multipart requests. One beyond a limit is left out and listed in `ignored` of its observation; the run is accepted.',
  );

export const config = z
  .strictObject({
    endpoint: endpoint('127.0.0.1:4318').describe(
      'Address to listen on. Receivers with the same endpoint share one listener.',
    ),
    ...projectField,
    ...listenerFields,
    attachments: attachments.prefault({}),
  })
  .superRefine(needsTrustedProxies);

export type RunsConfig = z.output<typeof config>;
