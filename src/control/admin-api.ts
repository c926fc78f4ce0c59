import { capability } from '../component/capability.ts';

/** Where a service is managed over HTTP, for what a start prints. */
export type AdminApi = {
  /** `http://127.0.0.1:4319`, with the real port; undefined while it does not listen. */
  readonly url: string | undefined;
  /** The file with the admin token; undefined where the configuration gives the token. */
  readonly tokenFile: string | undefined;
};

/** Offered by `admin`. */
export const ADMIN_API = capability<AdminApi>('admin_api');
