import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { HEALTH } from '../../src/component/health.ts';
import type { AdminApi } from '../../src/control/admin-api.ts';
import { ADMIN_API } from '../../src/control/admin-api.ts';
import { CONTROL } from '../../src/control/pipelines.ts';
import { PROJECT_READS } from '../../src/read/project-reads.ts';
import { parseEndpoint } from '../../src/schema/fields.ts';
import type { DataDirectory } from '../../src/store/data-directory.ts';
import { DATA_DIRECTORY } from '../../src/store/data-directory.ts';
import { STORE, type Store } from '../../src/store/store.ts';
import type { AdminAccess } from './access.ts';
import { guardAccess } from './access.ts';
import type { AdminConfig } from './config.ts';
import { builtPages, readPages } from './pages.ts';
import { payloadAudit } from './payload-audit.ts';
import type { AdminServer } from './server.ts';
import { createServer } from './server.ts';
import { keepToken } from './token.ts';
import type { UiAccess } from './ui-access.ts';
import { uiAccess } from './ui-access.ts';
import { uiCookie } from './ui-cookie.ts';
import { linkWithCode } from './ui-operations.ts';
import { uiSecrets } from './ui-secrets.ts';

/** The limit on wrong tokens does not delay the right one, so a token withstands guessing by its length. */
const SHORT_TOKEN = 16;

/**
 *   socket ─▶ fastify ─▶ server.ts  path, method ─▶ credential ─▶ body ─▶ query and body by their schema
 *                          ├▶ operations.ts ─▶ store, audit
 *                          ├▶ reading.ts ─▶ src/read
 *                          ├▶ ui-operations.ts ─▶ sessions in the store
 *                          └▶ pages.ts ─▶ the files of the web UI, in memory
 */
export function createExtension(
  settings: Settings,
  config: AdminConfig,
  pages: string = builtPages(),
): Extension {
  const { host, logger, clock, metrics } = settings;
  let server: AdminServer | undefined;
  let ui: UiAccess | undefined;
  let tokenFile: string | undefined;
  const api: AdminApi = {
    get url() {
      return server?.url();
    },
    get tokenFile() {
      return tokenFile;
    },
    async signInLink(by) {
      const url = server?.url();
      if (ui === undefined || url === undefined) return undefined;
      return linkWithCode(url, (await ui.makeCode(by)).code);
    },
  };

  return {
    async start() {
      const store = host.extension(config.store, STORE);
      const token = await tokenOf(settings, config);
      if (token === undefined) {
        logger.warn(
          { endpoint: config.endpoint, store: config.store },
          'Admin API is not served: no token, and the store has no data directory to keep one',
        );
        return;
      }
      tokenFile = token.file;
      const access = guardAccess(token.token, clock, logger);
      ui = await uiOf(settings, config, { store, access, token: token.token });
      server = await createServer({
        ...{ store, access, logger, clock },
        ui,
        pages: await readPages(pages),
        running: { control: host.service(CONTROL), store: config.store },
        health: host.service(HEALTH),
        reads: host.service(PROJECT_READS),
        audit: payloadAudit(store.audit, clock),
      });
      await server.listen(config, metrics);
      warnOfExposure(settings, config);
      if (token.token.length < SHORT_TOKEN)
        logger.warn({}, 'Admin token is shorter than 16 characters');
      // Logs the token's file, never the token.
      logger.info({ url: server.url(), token_file: tokenFile }, 'Serving the admin API');
    },
    async shutdown(deadline) {
      const closing = server;
      server = undefined;
      await closing?.close(deadline);
    },
    offers: [offer(ADMIN_API, api)],
  };
}

async function uiOf(
  { clock }: Settings,
  { tls }: AdminConfig,
  { store, access, token }: { store: Store; access: AdminAccess; token: string },
): Promise<UiAccess> {
  const secrets = await uiSecrets(token, (await store.organization.get()).id);
  const cookie = uiCookie(secrets.suffix, tls !== undefined);
  return uiAccess({ sessions: store.uiSessions, access, secrets, cookie, clock });
}

/** Warns about an endpoint that other machines reach: without TLS the network between can read the token. */
function warnOfExposure({ logger }: Settings, { endpoint, tls, token }: AdminConfig): void {
  const host = parseEndpoint(endpoint)?.host ?? '';
  if (/^(127\.|localhost$|::1$)/i.test(host)) return;
  if (tls === undefined) {
    logger.warn({ endpoint }, 'Admin API has no TLS and other machines may reach it');
  }
  if (token === '') {
    logger.warn({ endpoint }, 'Admin API has no configured token and other machines may reach it');
  }
}

/** Undefined if no token is configured and the store has no data directory to keep one. */
async function tokenOf(
  { host }: Settings,
  { store, token }: AdminConfig,
): Promise<{ readonly token: string; readonly file?: string } | undefined> {
  if (token !== '') return { token };
  let directory: DataDirectory;
  try {
    directory = host.extension(store, DATA_DIRECTORY);
  } catch {
    return undefined;
  }
  return keepToken(directory.path);
}
