import { defineExtension } from '../../src/component/component.ts';
import { adminConfig } from './config.ts';
import { createAdmin } from './extension.ts';

export const admin = defineExtension({
  kind: 'extension',
  type: 'admin',
  stability: 'beta',
  description: 'Manages projects, keys, plan and usage of a store over HTTP',
  config: adminConfig,
  provides: ['admin_api'],
  create: createAdmin,
});
