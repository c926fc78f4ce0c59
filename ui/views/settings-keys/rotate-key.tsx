import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, at, send } from '../../api/client.ts';
import { daemonNow } from '../../api/clock.ts';
import type { CreatedKey, Key } from '../../api/types.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { keyName } from '../../parts/key-name.ts';
import { NewKey, TokenWarning } from '../../parts/new-key.tsx';
import { Refusal } from '../../parts/refusal.tsx';
import { Snippets } from '../../parts/snippets.tsx';
import { beginning, isolated } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { useIsCopied } from '../../state/clipboard.ts';
import { done } from '../../state/toasts.ts';
import { stateOf, stepOf } from './keys.ts';

type Props = {
  readonly old: Key;
  /** Every key of the project, read again and again. */
  readonly keys: readonly Key[];
  readonly projectId: string;
  readonly reload: () => void;
  readonly onClose: () => void;
};

/** The four steps of a rotation: create, deploy, confirm the use, revoke. It affects only the project of the key. */
export function RotateKey({ old, keys, projectId, reload, onClose }: Props): JSX.Element {
  const [created, setCreated] = useState<CreatedKey | undefined>(undefined);
  const [chosen, setChosen] = useState<Chosen | undefined>(undefined);
  const [isDeployed, setDeployed] = useState(false);
  const [wasWarned, setWarned] = useState(false);
  const { failure, isBusy, attempt } = useAttempt();

  const replacement = keys.find(({ id }) => id === (created?.id ?? chosen?.id)) ?? created;
  const current = keys.find(({ id }) => id === old.id) ?? old;
  const usedBefore = chosen?.usedBefore ?? null;
  const step = stepOf({ isDeployed, replacement, usedBefore });

  const create = attempt(async () => {
    const body = { permissions: old.permissions, ...(old.name === '' ? {} : { name: old.name }) };
    setCreated(await send<CreatedKey>('POST', at`/projects/${projectId}/keys`, { body }));
    reload();
  });
  const choose = (id: string): void => {
    const key = keys.find((each) => each.id === id);
    setChosen(key && chosenOf(key));
    setDeployed(key !== undefined);
  };
  const revoke = attempt(async () => {
    await send('DELETE', at`/keys/${old.id}`);
    reload();
    done('The key is rotated: the old one is refused from now on.');
    onClose();
  });

  const showsToken = step === 2 && created !== undefined;
  const isSafe = useIsCopied(created?.token);
  const mayLose = showsToken && !isSafe;
  const close = (): void => {
    // No later answer has the token of a replacement on its way.
    if (step === 1 && isBusy) return;
    if (mayLose && !wasWarned) setWarned(true);
    else onClose();
  };

  return (
    <Dialog title={`Rotate ${shortName(old)}`} onClose={close}>
      <ol class="steps">
        <Step number={1} current={step} title="Create a replacement in the same project">
          <p class="muted">It gets the same name and permissions.</p>
          <div class="actions">
            <button type="button" class="primary" disabled={isBusy} onClick={create}>
              Create replacement
            </button>
          </div>
          <Others old={old} keys={keys} onChoose={choose} />
        </Step>
        <Step number={2} current={step} title="Deploy the new secret">
          {showsToken && (
            <>
              <NewKey token={created.token} />
              <details class="paste">
                <summary>Settings to paste: curl, Python, LangSmith, OpenTelemetry, …</summary>
                <Snippets token={created.token} />
              </details>
            </>
          )}
          <div class="actions">
            <button type="button" class="primary" onClick={() => setDeployed(true)}>
              It is deployed
            </button>
          </div>
        </Step>
        <Step number={3} current={step} title="Confirm that the replacement is in use">
          <p role="status" class="waiting">
            <span class="spinner" aria-hidden="true" /> Waiting for{' '}
            {usedBefore === null ? 'the first request' : 'a request'} with{' '}
            <code>{replacement?.prefix}…</code>
          </p>
          <p class="muted">A use shows here within a minute. The old key works until then.</p>
          {usedBefore !== null && (
            <p class="muted">
              Its last use was <Time at={usedBefore} />. If its client sends rarely, finish later.
            </p>
          )}
        </Step>
        <Step number={4} current={step} title="Revoke the old key">
          <p>
            The replacement was last used <Time at={replacement?.last_used_at} />, the old key{' '}
            <LastUse at={current.last_used_at} />.
          </p>
          <StillUsed old={current} replacement={replacement} />
          <div class="actions">
            <button type="button" class="danger" disabled={isBusy} onClick={revoke}>
              Revoke
            </button>
          </div>
        </Step>
      </ol>
      {mayLose && wasWarned && <TokenWarning />}
      {failure !== undefined && <Refusal failure={failure} />}
      <div class="dialog-foot">
        <button type="button" onClick={close}>
          {step === 1 ? 'Cancel' : 'Finish later'}
        </button>
      </div>
    </Dialog>
  );
}

type Chosen = { readonly id: string; readonly usedBefore: string | null };

/** A use from long ago confirms no deployment: the client may send with the old key since then. */
function chosenOf(key: Key): Chosen {
  const isIdle = stateOf(key, daemonNow()) === 'idle';
  return { id: key.id, usedBefore: isIdle ? key.last_used_at : null };
}

/** Runs one change at a time, and keeps its failure until the next one. */
function useAttempt() {
  const [failure, setFailure] = useState<ApiFailure | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const run = async (work: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    try {
      await work();
    } catch (error) {
      setFailure(ApiFailure.of(error));
    }
    setBusy(false);
  };
  const attempt = (work: () => Promise<void>) => () => void run(work);
  return { failure, isBusy, attempt };
}

type StepProps = {
  readonly number: number;
  readonly current: number;
  readonly title: string;
  readonly children: ComponentChildren;
};

function Step({ number, current, title, children }: StepProps): JSX.Element {
  const isCurrent = number === current;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // The button of the step before, which had the focus, is gone.
    if (isCurrent && number > 1) heading.current?.focus();
  }, [isCurrent]);
  const state = isCurrent ? 'is-current' : number < current ? 'is-done' : '';
  return (
    <li class={state} {...(isCurrent ? { 'aria-current': 'step' } : {})}>
      <h3 ref={heading} tabIndex={-1}>
        {title}
      </h3>
      {isCurrent && children}
    </li>
  );
}

/** Characters of a name beside other words. */
const SHORT = 60;

function shortName(key: Key): string {
  return isolated(beginning(keyName(key), SHORT));
}

type OthersProps = {
  readonly old: Key;
  readonly keys: readonly Key[];
  readonly onChoose: (id: string) => void;
};

/** A rotation that was left early goes on with the replacement that it made. */
function Others({ old, keys, onChoose }: OthersProps): JSX.Element | null {
  const others = keys.filter(({ id, revoked_at }) => id !== old.id && revoked_at === null);
  if (others.length === 0) return null;
  return (
    <label>
      Or go on with a key that exists already
      <select onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
        <option value="">Choose a key</option>
        {others.map((each) => (
          <option key={each.id} value={each.id}>
            {`${shortName(each)} (${each.prefix}…)`}
          </option>
        ))}
      </select>
    </label>
  );
}

export function LastUse({ at: time }: { readonly at: string | null }): JSX.Element {
  return time === null ? <>never</> : <Time at={time} />;
}

type StillUsedProps = { readonly old: Key; readonly replacement: Key | undefined };

function StillUsed({ old, replacement }: StillUsedProps): JSX.Element | null {
  const [last, since] = [old.last_used_at, replacement?.last_used_at];
  if (last === null || since === null || since === undefined || last < since) return null;
  return (
    <p class="warn">
      A client used the old key later than the replacement. Requests of that client will be refused
      with 401.
    </p>
  );
}
