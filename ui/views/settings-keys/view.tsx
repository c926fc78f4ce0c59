import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { at, get, send } from '../../api/client.ts';
import { daemonNow } from '../../api/clock.ts';
import type { Key, Keys, Project } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { isFound } from '../../parts/find.ts';
import { FindBar, wantedText } from '../../parts/find-field.tsx';
import { Icon } from '../../parts/icon.tsx';
import { keyName } from '../../parts/key-name.ts';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { SettingsHead } from '../../parts/settings-head.tsx';
import { Switch } from '../../parts/switch.tsx';
import { isBlank } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { project } from '../../state/projects.ts';
import type { Resource } from '../../state/resource.ts';
import { useResource } from '../../state/resource.ts';
import { query, setQuery } from '../../state/router.ts';
import { printTerm } from '../../state/terms.ts';
import { done } from '../../state/toasts.ts';
import { CreateKey } from './create-key.tsx';
import { stateOf } from './keys.ts';
import { LastUse, RotateKey } from './rotate-key.tsx';
import './settings-keys.css';

/** Milliseconds between two looks at the last uses. */
const REFRESH_MS = 3_000;

/** Settings, API keys: the keys of the chosen project. */
export function View(): JSX.Element {
  const of = project.value;
  return of === undefined ? (
    <Empty title="There is no project" />
  ) : (
    <ProjectKeys key={of.id} of={of} />
  );
}

type Asked =
  | { readonly what: 'create' }
  | { readonly what: 'rotate' | 'revoke'; readonly key: Key };

function ProjectKeys({ of }: { readonly of: Project }): JSX.Element {
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const resource = useResource(
    of.id,
    (signal) => get<Keys>(at`/projects/${of.id}/keys`, { signal }),
    { every: REFRESH_MS },
  );
  const { data, failure, again, reload } = resource;
  const note = (
    <>
      Keys of <strong class="user-text">{of.name}</strong>: what they send is stored in this
      project.
    </>
  );
  return (
    <>
      <SettingsHead title="API keys" note={note}>
        <button type="button" class="primary" onClick={() => setAsked({ what: 'create' })}>
          <Icon name="plus" /> Create key
        </button>
      </SettingsHead>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <KeyList keys={data.keys} ask={(what, key) => setAsked({ what, key })} />
      )}
      {asked !== undefined && (
        <Question asked={asked} of={of} resource={resource} onClose={() => setAsked(undefined)} />
      )}
    </>
  );
}

type QuestionProps = {
  readonly asked: Asked;
  readonly of: Project;
  readonly resource: Resource<Keys>;
  readonly onClose: () => void;
};

function Question({ asked, of, resource, onClose }: QuestionProps): JSX.Element {
  const { data, reload } = resource;
  if (asked.what === 'create') return <CreateKey of={of} onCreated={reload} onClose={onClose} />;
  const { key } = asked;
  if (asked.what === 'revoke') return <RevokeKey of={key} onRevoked={reload} onClose={onClose} />;
  const keys = data?.keys ?? [];
  return <RotateKey old={key} keys={keys} projectId={of.id} reload={reload} onClose={onClose} />;
}

type ListProps = {
  readonly keys: readonly Key[];
  readonly ask: (what: 'rotate' | 'revoke', key: Key) => void;
};

function KeyList({ keys, ask }: ListProps): JSX.Element {
  const showsRevoked = query.value.get('revoked') === 'true';
  const revoked = keys.filter(({ revoked_at }) => revoked_at !== null).length;
  const listed = keys.filter(({ revoked_at }) => showsRevoked || revoked_at === null);
  const wanted = wantedText();
  const shown = listed.filter(({ name, prefix, id }) => isFound(wanted, name, prefix, id));
  return (
    <>
      <FindBar label="Find a key" found={shown.length} total={listed.length} />
      {listed.length > 0 && shown.length === 0 ? (
        <Empty title="No key is found" />
      ) : shown.length === 0 ? (
        <Empty title="This project has no key in force">
          <p>Create one, and give it to the application that sends traces.</p>
        </Empty>
      ) : (
        <KeyTable keys={shown} ask={ask} />
      )}
      {revoked > 0 && (
        <Switch
          label={`Show ${revoked} revoked`}
          isOn={showsRevoked}
          onChange={(isOn) => setQuery({ revoked: isOn ? 'true' : undefined }, { replace: true })}
        />
      )}
    </>
  );
}

function KeyTable({ keys, ask }: ListProps): JSX.Element {
  return (
    <RecordTable
      label="API keys"
      rows={keys}
      keyOf={({ id }) => id}
      classOf={({ revoked_at }) => (revoked_at === null ? '' : 'is-revoked')}
      columns={[
        { name: 'Key', isHead: true, cell: (key) => <KeyName of={key} /> },
        {
          name: 'Permissions',
          cell: ({ permissions }) => permissions.map((each) => <code key={each}>{each} </code>),
        },
        { name: 'State', cell: (key) => <State of={key} /> },
        { name: 'Last used', isNumber: true, cell: (key) => <LastUse at={key.last_used_at} /> },
        { name: 'Created', isNumber: true, cell: (key) => <Time at={key.created_at} /> },
        {
          name: 'Actions',
          isActions: true,
          cell: (key) =>
            key.revoked_at === null ? (
              <>
                <Link to="/traces" query={{ q: printTerm('key', key.id) }}>
                  Traces
                </Link>{' '}
                <button type="button" onClick={() => ask('rotate', key)}>
                  Rotate
                </button>
                <button type="button" onClick={() => ask('revoke', key)}>
                  Revoke
                </button>
              </>
            ) : (
              <span class="muted">
                revoked <Time at={key.revoked_at} />
              </span>
            ),
        },
      ]}
    />
  );
}

function KeyName({ of: key }: { readonly of: Key }): JSX.Element {
  return (
    <div class="key-name">
      <span class="user-text">{isBlank(key.name) ? <i class="muted">no name</i> : key.name}</span>
      <span class="mono muted">{key.prefix}…</span>
    </div>
  );
}

const BADGES = { 'in use': 'good', idle: '', 'never used': 'warn', revoked: 'bad' } as const;

function State({ of: key }: { readonly of: Key }): JSX.Element {
  const state = stateOf(key, daemonNow());
  return <span class={`badge ${BADGES[state]}`}>{state}</span>;
}

type RevokeProps = {
  readonly of: Key;
  readonly onRevoked: () => void;
  readonly onClose: () => void;
};

function RevokeKey({ of: key, onRevoked, onClose }: RevokeProps): JSX.Element {
  const run = async (): Promise<void> => {
    await send('DELETE', at`/keys/${key.id}`);
    onRevoked();
    done('The key is revoked. Requests with it are refused from now on.');
  };
  return (
    <Confirm title="Revoke the key" verb="Revoke" isDangerous run={run} onClose={onClose}>
      <p>
        Requests with <strong class="user-text">{keyName(key)}</strong> (<code>{key.prefix}…</code>)
        get 401 without delay. This cannot be undone.
      </p>
      <p class={stateOf(key, daemonNow()) === 'in use' ? 'warn' : 'muted'}>
        {key.last_used_at === null ? (
          'The key was never used.'
        ) : (
          <>
            It was last used <Time at={key.last_used_at} />.
            {stateOf(key, daemonNow()) === 'in use' &&
              ' A client still sends with it: rotate the key instead.'}
          </>
        )}
      </p>
    </Confirm>
  );
}
