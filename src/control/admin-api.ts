import { capability } from '../component/capability.ts';

/** The admin API of a service, for the welcome text. */
export type AdminApi = {
  /** `http://127.0.0.1:4319`, with the bound port; undefined while it does not listen. */
  readonly url: string | undefined;
  /** The file with the admin token; undefined when the configuration holds the token. */
  readonly tokenFile: string | undefined;
};

/** The extension `admin` offers it. */
export const ADMIN_API = capability<AdminApi>('admin_api');
