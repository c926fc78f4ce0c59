import { get } from '../api/client.ts';
import { failed } from './toasts.ts';

/**
 * Downloads a file of the daemon. A browser shows no answer that refuses a download, so a request before it finds a session that has
 * ended: then the page asks to sign in. The attribute `download` leaves the page where it is, also if the daemon refuses.
 */
export async function download(url: string, name = ''): Promise<void> {
  try {
    await get('/service');
  } catch (error) {
    failed(error);
    return;
  }
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
}
