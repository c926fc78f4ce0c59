import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { apiPath, at, get } from '../../api/client.ts';
import type { Observation, Trace, TreeObservation } from '../../api/types.ts';
import { conversationOf } from '../../parts/conversation.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { ErrorLine } from '../../parts/error-line.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, cost, count, duration } from '../../parts/format.ts';
import { Icon } from '../../parts/icon.tsx';
import { Json } from '../../parts/json.tsx';
import { KindMark } from '../../parts/kind.tsx';
import { ListLink } from '../../parts/list-link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Messages, Value } from '../../parts/messages.tsx';
import { Status } from '../../parts/status.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { beginning, nameText, visible } from '../../parts/text-pieces.ts';
import { useResource } from '../../state/resource.ts';
import { recall, remember } from '../../state/storage.ts';
import { printTerm } from '../../state/terms.ts';
import { Attachments } from './attachments.tsx';
import { Attributes } from './attributes.tsx';
import { curlOf } from './curl.ts';
import { RawEvents } from './raw-events.tsx';
import { Sheet } from './sheet.tsx';
import type { TreeLayout } from './tree-layout.ts';
import { tokensOf, uncountedOf } from './values.ts';

type Props = {
  readonly projectId: string;
  readonly trace: Trace;
  readonly layout: TreeLayout;
  readonly observation: TreeObservation;
  /** It covers the page. */
  readonly isSheet: boolean;
  readonly onClose: () => void;
};

const TABS = ['Messages', 'JSON', 'Attributes', 'Raw event'] as const;
type Tab = (typeof TABS)[number];

/** The chosen observation. Its payloads load when it opens, and again when it changes. */
export function Panel(props: Props): JSX.Element {
  const { projectId, trace, observation, isSheet, onClose } = props;
  const [tab, setTab] = useState<Tab>(
    () => TABS.find((each) => each === recall('tab')) ?? 'Messages',
  );
  const path = at`/projects/${projectId}/observations/${observation.id}`;
  const query = { trace_id: trace.id };
  const { data, failure, reload } = useResource<Observation>(
    path + ownFields(observation),
    (signal) => get(path, { query, signal, isExact: true }),
  );
  const choose = (name: Tab): void => {
    setTab(name);
    remember('tab', name);
  };
  const panel = (
    <section class="panel" aria-label="Observation">
      <PanelHead observation={observation} request={curlOf(location.origin + apiPath(path, query))}>
        {isSheet && (
          <button type="button" class="quiet icon-only" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        )}
      </PanelHead>
      <Tabs label="Observation" names={TABS} chosen={tab} onChoose={choose}>
        {failure !== undefined && <Failure failure={failure} retry={reload} />}
        {data === undefined && failure === undefined && <Loading />}
        {data !== undefined && <Content {...props} tab={tab} data={data} />}
      </Tabs>
    </section>
  );
  if (!isSheet) return panel;
  return (
    <Sheet label={`Observation ${visible(nameText(observation.name, 200))}`} onClose={onClose}>
      {panel}
    </Sheet>
  );
}

/**
 * Changes when an event of the observation arrives, and not when one of another observation changes how this one counts: payloads that are
 * read again close what a person opened in them.
 */
function ownFields({ counted, cost_counted, cycle, ...own }: TreeObservation): string {
  return JSON.stringify(own);
}

type HeadProps = {
  readonly observation: TreeObservation;
  readonly request: string;
  readonly children: JSX.Element | false;
};

function PanelHead({ observation, request, children }: HeadProps): JSX.Element {
  const { name, kind, status, state, latency_ms, ttft_ms, usage, error } = observation;
  const { input, output, total } = tokensOf(usage);
  const model = observation.model;
  const uncounted = uncountedOf(observation);
  return (
    <div class="panel-head">
      <div class="panel-title">
        <KindMark kind={kind} />
        <h2 class="user-text">{visible(nameText(name, 200))}</h2>
        <Status status={status} state={state} />
        <span class="panel-actions">
          <CopyButton text={observation.id} label="Copy observation id" isIconOnly />
          <CopyButton text={request} label="Copy request" />
          {children}
        </span>
      </div>
      <p class="muted panel-facts">
        <span>{duration(latency_ms)}</span>
        {ttft_ms !== null && <span>first token {duration(ttft_ms)}</span>}
        {model !== null && (
          <span class="user-text">
            <ListLink q={printTerm('model', model)}>{visible(beginning(model, 120))}</ListLink>
          </span>
        )}
        {total !== null && (
          <span>
            {count(total)} tokens ({count(input)} in, {count(output)} out)
          </span>
        )}
        {observation.cost !== null && <span>{cost(observation.cost.total)}</span>}
        {uncounted !== null && (
          <span title="A child or a parent has the same usage, which counts once.">
            {uncounted}
          </span>
        )}
      </p>
      <ErrorLine error={error} />
    </div>
  );
}

function Content({ tab, data, ...props }: Props & { tab: Tab; data: Observation }): JSX.Element {
  if (tab === 'JSON') return <Payloads data={data} />;
  if (tab === 'Attributes') {
    return <Attributes data={data} node={props.observation} layout={props.layout} />;
  }
  if (tab === 'Raw event') return <RawEvents projectId={props.projectId} data={data} />;
  return (
    <>
      <Conversation data={data} node={props.observation} />
      <Attachments projectId={props.projectId} data={data} />
    </>
  );
}

function Payloads({ data }: { readonly data: Observation }): JSX.Element {
  // The same object for the same data: a new one closes what a person opened.
  const value = useMemo(() => {
    const { inputs, outputs, events, metadata, context_metadata } = data;
    return { inputs, outputs, events, metadata, context_metadata };
  }, [data]);
  return <Json key={data.updated_at} label="Payloads" value={value} />;
}

type ConversationProps = { readonly data: Observation; readonly node: TreeObservation };

function Conversation({ data, node }: ConversationProps): JSX.Element {
  const { inputs, outputs } = data;
  const messages = useMemo(() => conversationOf(inputs, outputs), [inputs, outputs]);
  if (messages !== undefined) return <Messages messages={messages} />;
  const hasNothing = isNothing(inputs) && isNothing(outputs);
  if (hasNothing) {
    return (
      <p class="muted panel-none">
        The observation has no input and no output. Events and metadata are in Attributes.
      </p>
    );
  }
  return (
    <div class="in-and-out">
      <h3>
        Input <span class="muted">{sizeText(node.input_bytes)}</span>
      </h3>
      <Value value={inputs} label="Input" />
      <h3>
        Output <span class="muted">{sizeText(node.output_bytes)}</span>
      </h3>
      <Value value={outputs} label="Output" />
    </div>
  );
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

function sizeText(size: number | null): string {
  return size === null ? '' : bytes(size);
}
