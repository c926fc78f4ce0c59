import { diskQueue } from '../connectors/disk_queue/factory.ts';
import { bullmq as bullmqExporter } from '../exporters/bullmq/factory.ts';
import { debug } from '../exporters/debug/factory.ts';
import { file } from '../exporters/file/factory.ts';
import { otlpHttp } from '../exporters/otlphttp/factory.ts';
import { postgres as postgresExporter } from '../exporters/postgres/factory.ts';
import { sqlite as sqliteExporter } from '../exporters/sqlite/factory.ts';
import { admin } from '../extensions/admin/factory.ts';
import { fileStorage } from '../extensions/file_storage/factory.ts';
import { healthCheck } from '../extensions/health_check/factory.ts';
import { postgres as postgresStore } from '../extensions/postgres/factory.ts';
import { redis } from '../extensions/redis/factory.ts';
import { sqlite as sqliteStore } from '../extensions/sqlite/factory.ts';
import { auth } from '../processors/auth/factory.ts';
import { customFields } from '../processors/custom_fields/factory.ts';
import { normalization } from '../processors/normalization/factory.ts';
import { quotas } from '../processors/quotas/factory.ts';
import { validation } from '../processors/validation/factory.ts';
import { bullmq as bullmqReceiver } from '../receivers/bullmq/factory.ts';
import { native } from '../receivers/native/factory.ts';
import { otlp } from '../receivers/otlp/factory.ts';
import { runs } from '../receivers/runs/factory.ts';
import type { Registry } from './config/registry.ts';

/** Every component that is built in. A new one is its folder and a line here. */
export const REGISTRY: Registry = [
  sqliteStore,
  fileStorage,
  redis,
  postgresStore,
  admin,
  healthCheck,
  native,
  runs,
  otlp,
  bullmqReceiver,
  auth,
  validation,
  customFields,
  quotas,
  normalization,
  diskQueue,
  sqliteExporter,
  postgresExporter,
  otlpHttp,
  file,
  bullmqExporter,
  debug,
];
