import { z } from 'zod';
import { moment } from '../../src/control/moment.ts';
import { ERASURE_STATES } from '../../src/store/erasures.ts';
import { PLAN_NAMES } from '../../src/tenancy/contract.ts';
import { API_CODES, type ApiCode } from './errors.ts';

/**
 * The schemas of the admin API. The server validates requests with them, and the OpenAPI document is generated
 * from them. Schemas with an `id` are components of the document.
 */

const time = z.iso.datetime().describe('ISO 8601, UTC');
const count = z.int().nonnegative();
const limit = count.nullable().describe('Null is unlimited.');

const MAX_NAME = 200;
const name = z
  .string()
  .refine((text) => isName(text), { error: `must have 1 to ${MAX_NAME} characters` })
  .meta({ minLength: 1, maxLength: MAX_NAME, pattern: '\\S' });

function isName(text: string): boolean {
  const { length } = [...text];
  return length >= 1 && length <= MAX_NAME && text.trim() !== '' && text.isWellFormed();
}

function changesSomething(change: object): boolean {
  return Object.keys(change).length > 0;
}

const permission = z.enum(['ingest:write', 'traces:read']);

const usageInForce = z
  .strictObject({
    month: z.strictObject({
      events: count.describe('Accepted events of this UTC calendar month.'),
      resets_at: time,
    }),
    hour: z.strictObject({
      bytes: count.describe('Accepted payload bytes of this UTC clock hour.'),
      resets_at: time,
    }),
  })
  .meta({ id: 'UsageInForce', description: 'Usage that counts toward the current limits.' });

const planLimits = z.strictObject({
  projects: limit,
  events_per_month: limit,
  bytes_per_hour: limit,
  retention_days: limit,
});

const plans = z
  .strictObject({
    plans: z.array(z.strictObject({ name: z.enum(PLAN_NAMES), limits: planLimits })),
  })
  .meta({ id: 'Plans' });

const organization = z
  .strictObject({
    id: z.string().meta({ examples: ['org_4fE3x0aQ9LrT7uVwXyZ1'] }),
    name: z.string(),
    plan: z.enum(PLAN_NAMES),
    limits: planLimits.describe('The limits in force.'),
    usage: usageInForce,
  })
  .meta({ id: 'Organization' });

const organizationChange = z
  .strictObject({ name: name.optional(), plan: z.enum(PLAN_NAMES).optional() })
  .refine(changesSomething, { error: 'must have at least one field' })
  .meta({ id: 'OrganizationChange', minProperties: 1 });

const ownLimit = z.int().min(1).nullable().describe('Null is no own limit.');

const project = z
  .strictObject({
    id: z.string().meta({ examples: ['proj_4fE3x0aQ9LrT7uVwXyZ1'] }),
    name: z.string(),
    retained_traces: count.describe('Traces inside the retention window.'),
    retention: z
      .strictObject({ days: limit })
      .describe('The retention in force: the project’s own, or the plan’s.'),
    limits: z
      .strictObject({ events_per_month: ownLimit, bytes_per_hour: ownLimit })
      .describe(
        'The project’s own limits. The lower of its own and its organization’s limit counts.',
      ),
    created_at: time,
  })
  .meta({ id: 'Project' });

const projects = z.strictObject({ projects: z.array(project) }).meta({ id: 'Projects' });

const newProject = z.strictObject({ name }).meta({ id: 'NewProject' });

const MAX_RETENTION_DAYS = 36_500;
const projectChange = z
  .strictObject({
    name: name.optional(),
    retention: z
      .strictObject({
        days: z
          .int()
          .min(1)
          .max(MAX_RETENTION_DAYS)
          .nullable()
          .describe('Null restores the plan’s retention.'),
      })
      .optional(),
    limits: z
      .strictObject({
        events_per_month: ownLimit.optional(),
        bytes_per_hour: ownLimit.optional(),
      })
      .refine(changesSomething, { error: 'must have at least one field' })
      .meta({ minProperties: 1 })
      .optional(),
  })
  .refine(changesSomething, { error: 'must have at least one field' })
  .meta({ id: 'ProjectChange', minProperties: 1 });

const keyFields = {
  id: z.string().meta({ examples: ['key_4fE3x0aQ9LrT7uVwXyZ1'] }),
  name: z.string(),
  prefix: z.string().describe('The first characters of the token.'),
  permissions: z.array(permission),
  created_at: time,
  last_used_at: time.nullable(),
  revoked_at: time.nullable(),
};
const key = z.strictObject(keyFields).meta({ id: 'Key' });
const keys = z.strictObject({ keys: z.array(key) }).meta({ id: 'Keys' });
const newKey = z
  .strictObject({
    name: name.optional(),
    permissions: z.array(permission).min(1).optional().describe('Default: both.'),
  })
  .meta({ id: 'NewKey' });
const createdKey = z
  .strictObject({
    token: z.string().describe('The credential of the key. It is not shown again.'),
    ...keyFields,
  })
  .meta({ id: 'CreatedKey' });

const usageRow = z
  .strictObject({
    period: z.string().meta({ examples: ['2026-11-20', '2026-11-20T21'] }),
    project_id: z.string(),
    key_id: z.string(),
    events: count,
    bytes: count,
    rejected: z.record(z.string(), count).describe('Rejected items and refused requests by code.'),
  })
  .meta({ id: 'UsageRow' });
const usageHistory = z
  .strictObject({
    from: time,
    to: time,
    by: z.enum(['day', 'hour']),
    usage: z.array(usageRow),
  })
  .meta({ id: 'UsageHistory' });

const rejection = z
  .strictObject({
    at: time,
    project_id: z.string(),
    key_id: z.string(),
    path: z.string(),
    code: z.string(),
    reason: z.string().describe('The reason. It names a path, never a value.'),
    item_id: z.string().nullable(),
    client: z.string().nullable().describe('The `User-Agent` of the client.'),
    count: count.describe('Items that the entry covers.'),
  })
  .meta({ id: 'Rejection' });
const nextCursor = z
  .string()
  .nullable()
  .describe('The cursor of the next page; null on the last one.');
const rejections = z
  .strictObject({ rejections: z.array(rejection), next_cursor: nextCursor })
  .meta({ id: 'Rejections' });

const rejectionCounts = z
  .strictObject({
    from: time,
    to: time,
    by: z.enum(['day', 'hour']),
    codes: z
      .array(
        z.strictObject({
          code: z.string(),
          count,
          periods: z
            .array(z.strictObject({ period: z.string(), count }))
            .describe('Oldest first, without the periods of which the count is 0.'),
        }),
      )
      .describe('The most frequent first.'),
  })
  .meta({ id: 'RejectionCounts' });

const auditEntry = z
  .strictObject({
    at: time,
    actor: z.string().meta({ examples: ['admin-token', 'cli'] }),
    address: z.string().nullable(),
    action: z.string().meta({ examples: ['project.create', 'key.revoke'] }),
    subject: z.string().describe('Id of the changed object.'),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
  })
  .meta({ id: 'AuditEntry' });
const audit = z
  .strictObject({ audit: z.array(auditEntry), next_cursor: nextCursor })
  .meta({ id: 'Audit' });

const status = z
  .strictObject({
    ready: z.boolean(),
    status: z.enum(['starting', 'running', 'degraded', 'stopping', 'stopped']),
    up_since: time,
    components: z.array(
      z.strictObject({
        id: z.string(),
        ready: z.boolean(),
        healthy: z.boolean(),
        message: z.string().nullable(),
        details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
      }),
    ),
  })
  .meta({ id: 'Status' });

const error = z
  .strictObject({
    code: z.enum(Object.keys(API_CODES) as [ApiCode, ...ApiCode[]]),
    message: z.string().describe('A message for users.'),
    position: z
      .int()
      .nonnegative()
      .optional()
      .describe('Only with `invalid_query`: the index of the character at fault.'),
  })
  .meta({ id: 'Error' });

const document = z.looseObject({ openapi: z.string() }).meta({ id: 'Document' });

const receipt = z
  .strictObject({
    traces: count,
    observations: count,
    bytes: count,
    ids_hash: z
      .string()
      .describe('SHA-256 of the sorted SHA-256 hashes of the trace ids, one a line; in hex.'),
    unreadable_batches: count.describe('Damaged batches, whose items are unknown.'),
    verified_at: time.describe('When a last search of the store found nothing.'),
    copies: z.array(z.string()).describe('Where a copy may still be.'),
  })
  .meta({ id: 'ErasureReceipt' });

const erasure = z
  .strictObject({
    id: z.string().meta({ examples: ['era_4fE3x0aQ9LrT7uVwXyZ1'] }),
    project_id: z.string(),
    q: z.string().describe('The query. Once the erasure has ended, values are hashes.'),
    state: z.enum(ERASURE_STATES),
    dry_run: z.boolean(),
    block_until: time.nullable(),
    traces: count,
    observations: count,
    bytes: count.describe('Bytes of events as they were sent, without compression.'),
    requested_by: z.string(),
    requested_at: time,
    finished_at: time.nullable(),
    failure: z.string().nullable(),
    receipt: receipt.nullable(),
  })
  .meta({ id: 'Erasure' });

const newErasure = z
  .strictObject({
    q: z.string().describe('A query, as in a list of traces; at least one term.'),
    dry_run: z.boolean().optional().describe('Counts, and changes nothing. Default: false.'),
    block_until: moment
      .optional()
      .describe('Until then the trace ids or users of the query are not stored again.'),
  })
  .meta({ id: 'NewErasure' });

const erasures = z
  .strictObject({ erasures: z.array(erasure), next_cursor: nextCursor })
  .meta({ id: 'Erasures' });

export const SCHEMAS = {
  organization,
  organizationChange,
  plans,
  project,
  projects,
  newProject,
  projectChange,
  key,
  keys,
  newKey,
  createdKey,
  usageInForce,
  usageRow,
  usageHistory,
  rejection,
  rejections,
  rejectionCounts,
  auditEntry,
  audit,
  erasure,
  erasures,
  newErasure,
  receipt,
  status,
  error,
  document,
};

const cursor = z
  .string()
  .min(1)
  .max(1000)
  .optional()
  .describe('`next_cursor` of the previous page.');
const periods = {
  from: moment
    .optional()
    .describe('Inclusive. Default: 30 days before `to`, or 48 hours for hours.'),
  to: moment.optional().describe('Exclusive. Default: now.'),
  by: z.enum(['day', 'hour']).optional().describe('Default: day.'),
};

const page = {
  limit: z
    .string()
    .regex(/^([1-9]\d{0,2}|1000)$/, { error: 'must be 1 to 1000' })
    .optional()
    .meta({ type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
  cursor,
};
const filterText = z.string().min(1).max(200).optional();

export const QUERIES = {
  none: z.strictObject({}),
  page: z.strictObject(page),
  audit: z.strictObject({
    ...page,
    action: filterText.describe('Entries with this action only, such as `key.revoke`.'),
    actor: filterText.describe('Entries of this actor only, such as `admin-token`.'),
    project: filterText.describe(
      'Id of a project, which may be deleted: entries of the project, its keys and its erasures only.',
    ),
    from: moment.optional().describe('Inclusive. Default: no bound.'),
    to: moment.optional().describe('Exclusive. Default: no bound.'),
  }),
  periods: z.strictObject(periods),
  usage: z.strictObject({
    ...periods,
    project: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('Id of a project, which may be deleted.'),
  }),
};
