import { hash } from 'node:crypto';
import type { Tenant } from '../../src/model/batch.ts';
import type { AuthConfig } from './config.ts';

/** Keys of the configuration, compared by their hash, so that the time reveals nothing about a token. */
export function fixedKeys(
  keys: NonNullable<AuthConfig['keys']>,
): (token: string) => Tenant | undefined {
  const tenants = new Map<string, Tenant>();
  for (const [i, { token, project, permissions }] of keys.entries()) {
    tenants.set(hash('sha256', token, 'base64'), {
      organizationId: 'org_local',
      projectId: project,
      keyId: `key_fixed_${i + 1}`,
      permissions,
    });
  }
  return (token) => tenants.get(hash('sha256', token, 'base64'));
}
