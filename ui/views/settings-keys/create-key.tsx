import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { ApiFailure, at, send } from '../../api/client.ts';
import type { CreatedKey, Key, Project } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { NewKey, TokenWarning } from '../../parts/new-key.tsx';
import { Snippets } from '../../parts/snippets.tsx';
import { useIsCopied } from '../../state/clipboard.ts';

type Props = {
  readonly of: Project;
  /** The list of keys has another one. */
  readonly onCreated: () => void;
  readonly onClose: () => void;
};

/** Asks for name and permissions, and shows the token once. */
export function CreateKey({ of, onCreated, onClose }: Props): JSX.Element {
  const made = useRef<CreatedKey | undefined>(undefined);
  const [created, setCreated] = useState<CreatedKey | undefined>(undefined);
  const [name, setName] = useState('');
  const [permissions, setPermissions] = useState<readonly Permission[]>(ALL_PERMISSIONS);
  const isSending = useRef(false);
  const run = async (): Promise<void> => {
    if (permissions.length === 0) throw NO_PERMISSION;
    const body = { ...(name === '' ? {} : { name }), permissions };
    isSending.current = true;
    try {
      made.current = await send<CreatedKey>('POST', at`/projects/${of.id}/keys`, { body });
    } finally {
      isSending.current = false;
    }
    onCreated();
  };
  // The question closes after its run too; the token then shows in its place. No later answer has the token of a key on its way.
  const close = (): void => {
    if (made.current !== undefined) setCreated(made.current);
    else if (!isSending.current) onClose();
  };
  if (created !== undefined) return <TokenDialog created={created} onClose={onClose} />;
  return (
    <Confirm title="Create an API key" verb="Create key" run={run} onClose={close}>
      <p class="muted">
        The key sends to the project <strong class="user-text">{of.name}</strong> and to no other.
      </p>
      <label>
        Name
        <input
          value={name}
          maxLength={200}
          autocomplete="off"
          placeholder="where it is used, such as ci"
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
      </label>
      <Permissions chosen={permissions} onChange={setPermissions} />
    </Confirm>
  );
}

const NO_PERMISSION = new ApiFailure(0, {
  code: 'invalid_field',
  message: 'Choose a permission: a key without one can do nothing.',
});

type Permission = Key['permissions'][number];

const PERMISSIONS: readonly { name: Permission; meaning: string }[] = [
  { name: 'ingest:write', meaning: 'send traces' },
  { name: 'traces:read', meaning: 'read traces of this project' },
];

const ALL_PERMISSIONS = PERMISSIONS.map(({ name }) => name);

type PermissionsProps = {
  readonly chosen: readonly Permission[];
  readonly onChange: (chosen: readonly Permission[]) => void;
};

function Permissions({ chosen, onChange }: PermissionsProps): JSX.Element {
  const toggle = (name: Permission): void =>
    onChange(ALL_PERMISSIONS.filter((each) => chosen.includes(each) !== (each === name)));
  return (
    <fieldset class="permissions">
      <legend>Permissions</legend>
      {PERMISSIONS.map(({ name, meaning }) => (
        <label key={name}>
          <input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} />
          <span>
            <code>{name}</code> <span class="muted">{meaning}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

type TokenProps = { readonly created: CreatedKey; readonly onClose: () => void };

function TokenDialog({ created, onClose }: TokenProps): JSX.Element {
  const [wasWarned, setWarned] = useState(false);
  const isSafe = useIsCopied(created.token);
  const close = (): void => (wasWarned || isSafe ? onClose() : setWarned(true));
  return (
    <Dialog title="Save the new key" onClose={close}>
      <NewKey token={created.token} />
      <details class="paste">
        <summary>Settings to paste: curl, Python, LangSmith, OpenTelemetry, …</summary>
        <Snippets token={created.token} />
      </details>
      {wasWarned && !isSafe && <TokenWarning />}
      <div class="dialog-foot">
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
