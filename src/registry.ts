import { factory as diskQueueConnector } from '../connectors/disk_queue/factory.ts';
import { factory as bullmqExporter } from '../exporters/bullmq/factory.ts';
import { factory as debugExporter } from '../exporters/debug/factory.ts';
import { factory as fileExporter } from '../exporters/file/factory.ts';
import { factory as otlphttpExporter } from '../exporters/otlphttp/factory.ts';
import { factory as postgresExporter } from '../exporters/postgres/factory.ts';
import { factory as sqliteExporter } from '../exporters/sqlite/factory.ts';
import { factory as adminExtension } from '../extensions/admin/factory.ts';
import { factory as fileStorageExtension } from '../extensions/file_storage/factory.ts';
import { factory as healthCheckExtension } from '../extensions/health_check/factory.ts';
import { factory as postgresExtension } from '../extensions/postgres/factory.ts';
import { factory as redisExtension } from '../extensions/redis/factory.ts';
import { factory as sqliteExtension } from '../extensions/sqlite/factory.ts';
import { factory as authProcessor } from '../processors/auth/factory.ts';
import { factory as costProcessor } from '../processors/cost/factory.ts';
import { factory as customFieldsProcessor } from '../processors/custom_fields/factory.ts';
import { factory as filterProcessor } from '../processors/filter/factory.ts';
import { factory as normalizationProcessor } from '../processors/normalization/factory.ts';
import { factory as quotasProcessor } from '../processors/quotas/factory.ts';
import { factory as redactionProcessor } from '../processors/redaction/factory.ts';
import { factory as validationProcessor } from '../processors/validation/factory.ts';
import { factory as bullmqReceiver } from '../receivers/bullmq/factory.ts';
import { factory as nativeReceiver } from '../receivers/native/factory.ts';
import { factory as otlpReceiver } from '../receivers/otlp/factory.ts';
import { factory as runsReceiver } from '../receivers/runs/factory.ts';
import type { Registry } from './config/registry.ts';

/** Every component that is built in. A new one is its folder and a line here. */
export const REGISTRY: Registry = [
  sqliteExtension,
  fileStorageExtension,
  redisExtension,
  postgresExtension,
  adminExtension,
  healthCheckExtension,
  nativeReceiver,
  runsReceiver,
  otlpReceiver,
  bullmqReceiver,
  authProcessor,
  redactionProcessor,
  validationProcessor,
  customFieldsProcessor,
  quotasProcessor,
  normalizationProcessor,
  costProcessor,
  filterProcessor,
  diskQueueConnector,
  sqliteExporter,
  postgresExporter,
  otlphttpExporter,
  fileExporter,
  bullmqExporter,
  debugExporter,
];
