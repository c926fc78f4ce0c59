import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { Failure } from '../parts/failure.tsx';
import { Loading } from '../parts/loading.tsx';
import { Toasts } from '../parts/toasts.tsx';
import { loadProjects, projects } from '../state/projects.ts';
import { hasExpired, isHeld, session, signInsElsewhere, startSession } from '../state/session.ts';
import { Navigation } from './navigation.tsx';
import { Page } from './page.tsx';
import { SignIn } from './sign-in.tsx';

const EXPIRED = 'The sign-in has ended. Sign in to go on with the same page.';

/**
 *   main.tsx ─▶ App ─▶ session ─▶ projects ─▶ Navigation and Page ─▶ routes.ts ─▶ views/NAME/view.tsx
 */
export function App(): JSX.Element {
  const failure = useSignal<ApiFailure | undefined>(undefined);
  const refusal = useSignal<string | undefined>(undefined);

  const start = async (): Promise<void> => {
    failure.value = undefined;
    try {
      await loadProjects();
      session.value = 'in';
      hasExpired.value = false;
      // It is no reason for a later page that asks to sign in.
      refusal.value = undefined;
    } catch (error) {
      const cause = ApiFailure.of(error);
      if (cause.status !== 401) failure.value = cause;
    }
  };

  useEffect(() => {
    const run = async (): Promise<void> => {
      refusal.value = await startSession();
      await start();
    };
    void run();
  }, []);

  useEffect(() => {
    if (signInsElsewhere.value > 0) void start();
  }, [signInsElsewhere.value]);

  const hasAsked = useRef(false);
  const isOut = session.value === 'out' && !isHeld.value;
  if (isOut) hasAsked.current = true;
  const isReady = (session.value === 'in' || isHeld.value) && projects.value !== undefined;
  return (
    <>
      {isOut && <SignIn refusal={hasExpired.value ? EXPIRED : refusal.value} onSignedIn={start} />}
      {failure.value !== undefined && <Failure failure={failure.value} retry={start} />}
      {!isOut && failure.value === undefined && !isReady && <Loading />}
      {isReady && (
        <div class="frame">
          <Navigation />
          <Page isFirst={!hasAsked.current} />
        </div>
      )}
      <Toasts />
    </>
  );
}
