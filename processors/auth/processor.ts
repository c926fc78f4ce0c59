import { hash } from 'node:crypto';
import { offer } from '../../src/component/capability.ts';
import type { RequestHead, RequestProcessor, Settings } from '../../src/component/component.ts';
import type { ReceivedBatch, Tenant } from '../../src/model/batch.ts';
import { Refusal } from '../../src/model/errors.ts';
import { STORE } from '../../src/store/store.ts';
import type { ApiKey, KeyStore } from '../../src/tenancy/contract.ts';
import { hasValidChecksum } from '../../src/tenancy/token.ts';
import type { AuthConfig } from './config.ts';
import { credentialOf } from './credentials.ts';
import { fixedKeys } from './fixed-keys.ts';
import type { KeyCache } from './key-cache.ts';
import { cacheKeys } from './key-cache.ts';

/**
 *   head ─▶ one credential? ─▶ checksum ─▶ hash ─▶ cache ─▶ store ─▶ active? ─▶ tenant
 *             └───────────────────┴───────── any "no": the same 401 ────┘
 *
 * The pipeline checks the permissions of the key.
 */
export function createProcessor(settings: Settings, config: AuthConfig): RequestProcessor {
  if (config.keys !== undefined) return authenticateByKeys(fixedKeys(config.keys));
  return authenticateByStore(settings, config);
}

function authenticateByKeys(find: (token: string) => Tenant | undefined): RequestProcessor {
  return {
    async start() {},
    async shutdown() {},
    authenticate(head) {
      const token = credentialOf(head);
      const tenant = token === undefined ? undefined : find(token);
      if (tenant === undefined) throw unauthorized();
      return tenant;
    },
  };
}

function authenticateByStore(settings: Settings, config: AuthConfig): RequestProcessor {
  const store = settings.host.extension(config.store ?? '', STORE);
  let keys: KeyStore | undefined;
  let cache: KeyCache | undefined;

  function authenticate(head: RequestHead): Tenant | Promise<Tenant> {
    const token = credentialOf(head);
    if (token === undefined || !hasValidChecksum(token)) throw unauthorized();
    const key = cache?.find(hash('sha256', token, 'base64'));
    if (key instanceof Promise) return key.then((found) => admit(found, head));
    return admit(key, head);
  }

  function admit(key: ApiKey | undefined, head: RequestHead): Tenant {
    if (key === undefined || key.revokedAt !== null) throw unauthorized();
    keys?.touch(key.id, head.receivedAt);
    const { id: keyId, organizationId, projectId, permissions } = key;
    return { organizationId, projectId, keyId, permissions };
  }

  /** Drops items that an erasure has blocked. */
  function process(batch: ReceivedBatch): void {
    store.erasures.blocks.apply(batch);
  }

  return {
    offers: [offer(STORE, store)],
    authenticate,
    get process() {
      return keys !== undefined && store.erasures.blocks.areSome ? process : undefined;
    },
    async start() {
      keys = store.keys;
      cache = cacheKeys(keys, settings.clock, settings.logger, config.cache_ttl);
    },
    async shutdown() {
      cache?.close();
    },
  };
}

/** The same answer for every reason, so that it reveals nothing about a key. */
function unauthorized(): Refusal {
  return new Refusal('unauthorized', 'The API key is missing or invalid.');
}
