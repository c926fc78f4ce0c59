import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { Icon } from '../parts/icon.tsx';
import { Wait } from '../parts/wait.tsx';
import { signIn } from '../state/session.ts';
import { useTitle } from '../state/title.ts';

type Props = {
  /** Why the code of the link was refused. */
  readonly refusal: string | undefined;
  readonly onSignedIn: () => Promise<void>;
};

/** Asks for the admin token. A link of `tracectl ui` signs in without this page. */
export function SignIn({ refusal, onSignedIn }: Props): JSX.Element {
  useTitle('Sign in');
  const [token, setToken] = useState('');
  const [failure, setFailure] = useState<ApiFailure | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);

  // It takes the place of the page that had the focus, and nothing else is to be done here.
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn({ token: token.trim() });
      await onSignedIn();
    } catch (error) {
      setFailure(ApiFailure.of(error));
    }
    setBusy(false);
  };

  // The refusal comes after this page: the answer to the code is also the sign that no session exists.
  const said = failure?.message ?? refusal;
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>
          <Icon name="logo" /> tracectl
        </h1>
        <p>
          Run <code>tracectl ui</code> on the machine of the daemon and open the link that it
          prints, or paste the admin token.
        </p>
        <label>
          Admin token
          <input
            ref={field}
            type="password"
            autocomplete="current-password"
            required
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </label>
        {said !== undefined && (
          <div role="alert">
            <p class="bad">{said}</p>
            {failure !== undefined && <Wait failure={failure} />}
          </div>
        )}
        <button type="submit" class="primary" disabled={isBusy}>
          Sign in
        </button>
        <p class="muted">
          The first start writes the token to the file <code>admin-token</code> in the data
          directory.
        </p>
      </form>
    </main>
  );
}
