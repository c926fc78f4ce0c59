import { capability } from '../component/capability.ts';
import type { ChangedBy } from '../tenancy/contract.ts';

/** The admin API of a service, for the welcome text and the command `ui`. */
export type AdminApi = {
  /** `http://127.0.0.1:4319`, with the bound port; undefined while it does not listen. */
  readonly url: string | undefined;
  /** The file with the admin token; undefined when the configuration holds the token. */
  readonly tokenFile: string | undefined;
  /** Makes a link that signs in to the web UI, once; undefined while the API does not listen. */
  signInLink(by?: ChangedBy): Promise<string | undefined>;
};

/** The extension `admin` offers it. */
export const ADMIN_API = capability<AdminApi>('admin_api');
