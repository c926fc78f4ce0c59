import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { failed } from '../state/toasts.ts';
import { Dialog } from './dialog.tsx';
import { Refusal } from './refusal.tsx';

type Props = {
  readonly title: string;
  /** The label of the button; the same verb as of the button that opened the dialog. */
  readonly verb: string;
  /** A person types this text before the button works. */
  readonly typed?: string;
  readonly isDangerous?: boolean;
  readonly run: () => Promise<void>;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
};

/** Asks before something is done. It stays open with the message if that fails; after it was closed, the message shows beside the page. */
export function Confirm(props: Props): JSX.Element {
  const { title, verb, typed, isDangerous = false, run, onClose, children } = props;
  const [text, setText] = useState('');
  const [failure, setFailure] = useState<ApiFailure | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const isOpen = useRef(true);
  useEffect(
    () => () => {
      isOpen.current = false;
    },
    [],
  );
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await run();
      onClose();
    } catch (error) {
      if (!isOpen.current) failed(error);
      setFailure(ApiFailure.of(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        {children}
        {typed !== undefined && (
          <label>
            Type <strong class="user-text">{typed}</strong> to confirm
            <input
              value={text}
              autocomplete="off"
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </label>
        )}
        {failure !== undefined && <Refusal failure={failure} />}
        <div class="dialog-foot">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={isDangerous ? 'danger' : 'primary'}
            disabled={isBusy || (typed !== undefined && text !== typed)}
          >
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
