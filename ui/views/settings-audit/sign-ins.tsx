import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { at, get, send } from '../../api/client.ts';
import type { UiSession, UiSessions } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { Time } from '../../parts/time.tsx';
import { useResource } from '../../state/resource.ts';
import { done } from '../../state/toasts.ts';
import { browserText } from './audit.ts';

const REFRESH_MS = 15_000;
const WAYS: Readonly<Record<UiSession['signed_in_with'], string>> = {
  code: 'link',
  token: 'admin token',
};

/** The browsers that are signed in to these pages. */
export function SignIns(): JSX.Element {
  const [ending, setEnding] = useState<UiSession | undefined>(undefined);
  const { data, failure, again, reload } = useResource(
    'sessions',
    (signal) => get<UiSessions>('/sessions/ui', { signal }),
    { every: REFRESH_MS },
  );
  if (data === undefined) {
    return failure === undefined ? (
      <Loading />
    ) : (
      <Failure failure={failure} retry={reload} again={again} />
    );
  }
  if (data.sessions.length === 0) return <Empty title="No browser is signed in" />;
  return (
    <>
      <RecordTable
        label="Signed-in browsers"
        rows={data.sessions}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Browser', isHead: true, cell: (each) => <Browser of={each} /> },
          { name: 'Address', cell: ({ address }) => <code>{address ?? 'unknown'}</code> },
          { name: 'Signed in with', cell: (each) => WAYS[each.signed_in_with] },
          { name: 'Signed in', isNumber: true, cell: (each) => <Time at={each.created_at} /> },
          { name: 'Last used', isNumber: true, cell: (each) => <Time at={each.last_used_at} /> },
          { name: 'Ends', isNumber: true, cell: (each) => <Time at={each.expires_at} /> },
          {
            name: 'Actions',
            isActions: true,
            cell: (each) =>
              !each.is_current && (
                <button type="button" onClick={() => setEnding(each)}>
                  End
                </button>
              ),
          },
        ]}
      />
      {ending !== undefined && (
        <EndSignIn of={ending} onEnded={reload} onClose={() => setEnding(undefined)} />
      )}
    </>
  );
}

function Browser({ of }: { readonly of: UiSession }): JSX.Element {
  return (
    <span class="sign-in-browser">
      <span class="cut" title={of.user_agent ?? ''}>
        {browserText(of.user_agent)}
      </span>
      {of.is_current && <span class="badge good">this browser</span>}
    </span>
  );
}

type EndProps = {
  readonly of: UiSession;
  readonly onEnded: () => void;
  readonly onClose: () => void;
};

function EndSignIn({ of, onEnded, onClose }: EndProps): JSX.Element {
  const run = async (): Promise<void> => {
    await send('DELETE', at`/sessions/ui/${of.id}`);
    onEnded();
    done('The sign-in has ended.');
  };
  return (
    <Confirm title="End the sign-in" verb="End" isDangerous run={run} onClose={onClose}>
      <p>
        <strong class="user-text">{browserText(of.user_agent)}</strong> at{' '}
        <code>{of.address ?? 'an unknown address'}</code> has to sign in again.
      </p>
    </Confirm>
  );
}
