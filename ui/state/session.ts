import { computed, signal } from '@preact/signals';
import { onSignedOut, send } from '../api/client.ts';
import { dropKept } from './kept.ts';

/** `unknown` until the first answer of the daemon. */
export const session = signal<'unknown' | 'in' | 'out'>('unknown');

/** The daemon refused the session that this page had. */
export const hasExpired = signal(false);

/** Parts of the page that show data which no other page can show again. */
const holders = signal(0);

/** Whether the page stays although its session has ended. A sign-out ends it at once. */
export const isHeld = computed(() => hasExpired.value && holders.value > 0);

/** Keeps the page when its session ends without a sign-out. Returns a function that ends it. */
export function holdPage(): () => void {
  holders.value += 1;
  return () => {
    holders.value -= 1;
  };
}

/** Sign-ins in other tabs while this one was signed out. */
export const signInsElsewhere = signal(0);

/** Other tabs of the browser have the same session. */
const tabs = new BroadcastChannel('tracectl.session');
tabs.onmessage = ({ data }) => {
  if (data === 'ended') end();
  else if (session.value === 'out') signInsElsewhere.value += 1;
};
onSignedOut(() => {
  if (session.value === 'in') hasExpired.value = true;
  end();
});

function end(): void {
  session.value = 'out';
  dropKept();
}

/**
 * Signs in with the code of the link that opened the page, if there is one. The code is in the fragment of the address,
 * which a browser sends to no server; it is removed from the history.
 */
export async function startSession(): Promise<string | undefined> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code === undefined) return undefined;
  history.replaceState(history.state, '', location.pathname + location.search);
  try {
    await signIn({ code: decodeURIComponent(code) });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export async function signIn(
  credential: { readonly code: string } | { readonly token: string },
): Promise<void> {
  await send('POST', '/session', { body: credential });
  session.value = 'in';
  tabs.postMessage('begun');
}

export async function signOut(): Promise<void> {
  await send('DELETE', '/session');
  end();
  tabs.postMessage('ended');
}
