import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { project } from '../state/projects.ts';
import { useService } from '../state/service.ts';
import { recall, remember } from '../state/storage.ts';
import { CopyButton } from './copy-button.tsx';
import { Failure } from './failure.tsx';
import type { ClientName } from './snippet-texts.ts';
import { addressesOf, CLIENTS, snippetOf, YOUR_KEY } from './snippet-texts.ts';
import './snippets.css';
import { Tabs } from './tabs.tsx';

type Props = {
  /** Fills the place of the key. */
  readonly token: string | undefined;
};

/** The settings or the request of a client that a person chooses, ready to paste. */
export function Snippets({ token }: Props): JSX.Element {
  const [client, setClient] = useState<ClientName>(
    () => CLIENTS.find((each) => each === recall('client')) ?? 'curl',
  );
  const { data, failure, reload } = useService();
  const choose = (name: ClientName): void => {
    remember('client', name);
    setClient(name);
  };
  const addresses = addressesOf(data?.endpoints ?? []);
  const values = { addresses, key: token ?? YOUR_KEY, projectId: project.value?.id ?? '' };
  const snippet = snippetOf(client, values);
  if (failure !== undefined) return <Failure failure={failure} retry={reload} />;
  return (
    <div class="snippets">
      <Tabs label="Client" names={CLIENTS} chosen={client} onChoose={choose}>
        {snippet !== undefined && (
          <>
            <div class="snippet-head">
              <p class="muted">{snippet.note}</p>
              <CopyButton text={snippet.text} />
            </div>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long line scrolls by keyboard. */}
            <pre class="snippet" tabIndex={0}>
              {snippet.text}
            </pre>
          </>
        )}
        {snippet === undefined && data !== undefined && (
          <p class="muted">
            The configuration of this daemon has no receiver for this client. Add a receiver{' '}
            <code>{client === 'LangSmith' ? 'runs' : 'otlp'}</code> to a pipeline.
          </p>
        )}
      </Tabs>
    </div>
  );
}
