import { hash } from 'node:crypto';
import { offer } from '../../src/component/capability.ts';
import type { RequestHead, RequestProcessor, Settings } from '../../src/component/component.ts';
import type { ReceivedBatch, Tenant } from '../../src/model/batch.ts';
import { Refusal } from '../../src/model/errors.ts';
import type { RequestContext } from '../../src/model/request-context.ts';
import type { ErasureStore } from '../../src/store/erasures.ts';
import { STORE } from '../../src/store/store.ts';
import type { ApiKey, KeyStore } from '../../src/tenancy/contract.ts';
import { hasValidChecksum, TOKEN_CHARACTERS } from '../../src/tenancy/token.ts';
import type { AuthConfig } from './config.ts';
import type { Credential } from './credentials.ts';
import { credentialOf } from './credentials.ts';
import { fixedKeys } from './fixed-keys.ts';
import type { KeyCache } from './key-cache.ts';
import { cacheKeys } from './key-cache.ts';

/**
 *   head ─▶ one credential? ─▶ hash ─▶ cache? ─▶ checksum ─▶ store ─▶ active? ─▶ tenant
 *             │                          └─ known ─────────────────────────▲
 *             └──────────────────────────────┴────── any "no": the same 401 ┘
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
      const credential = credentialOf(head);
      const tenant = credential && find(credential.token);
      if (tenant === undefined) throw unauthorized();
      checkUser(credential, tenant);
      return tenant;
    },
  };
}

function authenticateByStore(settings: Settings, config: AuthConfig): RequestProcessor {
  const store = settings.host.extension(config.store ?? '', STORE);
  let keys: KeyStore | undefined;
  let cache: KeyCache | undefined;
  let blocks: ErasureStore['blocks'] | undefined;

  function authenticate(head: RequestHead): Tenant | Promise<Tenant> {
    const credential = credentialOf(head);
    if (credential === undefined || credential.token.length !== TOKEN_CHARACTERS) {
      throw unauthorized();
    }
    const digest = hash('sha256', credential.token, 'base64');
    const known = cache?.known(digest);
    if (known !== undefined) return admit(known, credential, head);
    if (!hasValidChecksum(credential.token)) throw unauthorized();
    const key = cache?.find(digest);
    if (key instanceof Promise) return key.then((found) => admit(found, credential, head));
    return admit(key, credential, head);
  }

  function admit(key: ApiKey | undefined, credential: Credential, head: RequestHead): Tenant {
    if (key === undefined || key.revokedAt !== null) throw unauthorized();
    const { id: keyId, organizationId, projectId, permissions } = key;
    const tenant = { organizationId, projectId, keyId, permissions };
    checkUser(credential, tenant);
    keys?.touch(key.id, head.receivedAt);
    return tenant;
  }

  /** Drops items that an erasure has blocked. */
  function process(
    batch: ReceivedBatch,
    { signal }: Pick<RequestContext, 'signal'>,
  ): Promise<void> | undefined {
    return blocks?.apply(batch, settings.clock, signal);
  }

  return {
    offers: [offer(STORE, store)],
    authenticate,
    get process() {
      return blocks?.areSome === true ? process : undefined;
    },
    async start() {
      keys = store.keys;
      blocks = store.erasures.blocks;
      cache = cacheKeys(keys, settings.clock, settings.logger, config.cache_ttl);
    },
    async shutdown() {
      cache?.close();
    },
  };
}

/**
 * The user name of HTTP Basic may be any text, except the id of another project: then the client expects its data in
 * that project. The client has a valid key, so the answer names the reason.
 */
function checkUser(credential: Credential | undefined, { projectId }: Tenant): void {
  const user = credential?.user;
  if (user === undefined || !user.startsWith('proj_') || user === projectId) return;
  const message =
    'The user name of HTTP Basic is the id of another project than that of the key. ' +
    'Use the id of the key\u2019s project, or any other text.';
  throw new Refusal('unauthorized', message);
}

/** The same answer for every reason, so that it reveals nothing about a key. */
function unauthorized(): Refusal {
  return new Refusal('unauthorized', 'The API key is missing or invalid.');
}
