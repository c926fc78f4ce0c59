import type { ComponentChildren, JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { at } from '../../api/client.ts';
import type { Observation, TreeObservation } from '../../api/types.ts';
import { bytes, cost, duration, exact, grouped } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { Link } from '../../parts/link.tsx';
import { ListLink } from '../../parts/list-link.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { isRecord, textOf } from '../../parts/message-parts.ts';
import { Value } from '../../parts/messages.tsx';
import { printTerm } from '../../state/terms.ts';
import { exceptionsOf } from './exceptions.ts';
import { instantOf } from './instant.ts';
import type { TreeLayout } from './tree-layout.ts';

type Props = {
  readonly data: Observation;
  readonly node: TreeObservation;
  readonly layout: TreeLayout;
};

/** Everything about an observation except its inputs and outputs. */
export function Attributes({ data, node, layout }: Props): JSX.Element {
  return (
    <div class="attributes">
      <Exceptions data={data} />
      <Part title="Facts" rows={facts(data, node, layout)} />
      <Part title="Usage" rows={usageRows(data.usage)} />
      <Part title="Cost" rows={costRows(data)} />
      <Part title="Custom fields" rows={textRows(data.custom_fields)} />
      <Part title="External ids" rows={textRows(data.external)} />
      <Part title="Ignored values" rows={ignoredRows(data)} />
      <Events data={data} />
      <Tree title="Metadata" value={data.metadata} />
      <Tree title="Context metadata" value={data.context_metadata} />
    </div>
  );
}

type Row = readonly [name: string, value: ComponentChildren];

function Part({ title, rows }: { title: string; rows: readonly Row[] }): JSX.Element | null {
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <dl class="attribute-list">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt class="user-text">{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function facts(data: Observation, node: TreeObservation, layout: TreeLayout): Row[] {
  const rows: [string, ComponentChildren][] = [
    ['Id', textValue(data.id)],
    ['Parent', textValue(data.parent_id)],
    ['Kind', data.kind],
    ['Status', data.status],
    ['State', data.state],
    ['Start', timeText(data.start_time)],
    ['End', timeText(data.end_time)],
    ['Latency', data.latency_ms === null ? undefined : duration(data.latency_ms)],
    ['First token', data.ttft_ms === null ? undefined : duration(data.ttft_ms)],
    ['Model', listedValue('model', data.model)],
    ['Provider', listedValue('provider', data.provider)],
    ['Tool', listedValue('tool', data.tool)],
    ['Prompt', listedValue('prompt', data.prompt?.name ?? null, promptText(data))],
    ['Environment', textValue(data.environment)],
    ['Release', textValue(data.release)],
    ['Tags', textValue(data.tags.join(', '))],
    ['User', linkedValue(data.user_id, at`/users/${data.user_id ?? ''}`)],
    ['Session', linkedValue(data.session_id, at`/sessions/${data.session_id ?? ''}`)],
    ['Sent as', data.source],
    ['Version of the event', data.event_version],
    ['Size of input', node.input_bytes === null ? undefined : bytes(node.input_bytes)],
    ['Size of output', node.output_bytes === null ? undefined : bytes(node.output_bytes)],
    ['Observations below it', belowText(data.id, layout)],
    ['First stored', timeText(data.created_at)],
    ['Last changed', timeText(data.updated_at)],
  ];
  return rows.filter(([, value]) => value !== undefined && value !== null && value !== '');
}

/** With all digits that the client sent. */
function timeText(time: string | null): JSX.Element | undefined {
  return time === null ? undefined : <time title={exact(time)}>{time}</time>;
}

function textValue(text: string | null): ComponentChildren {
  return text === null || text === '' ? undefined : <LongText text={text} first={1_000} />;
}

/** A value with the list of the traces that have it. */
function listedValue(field: string, value: string | null, text = value): ComponentChildren {
  const shown = textValue(text);
  if (shown === undefined || value === null) return shown;
  return <ListLink q={printTerm(field, value)}>{shown}</ListLink>;
}

function linkedValue(text: string | null, to: string): ComponentChildren {
  const shown = textValue(text);
  return shown === undefined ? undefined : <Link to={to}>{shown}</Link>;
}

function promptText({ prompt }: Observation): string | null {
  if (prompt === null) return null;
  const { name, version } = prompt;
  return [name, version === null ? null : `version ${version}`].filter(Boolean).join(', ');
}

function belowText(id: string, layout: TreeLayout): string | undefined {
  const below = (layout.sizes[layout.rowOf.get(id) ?? -1] ?? 1) - 1;
  return below === 0 ? undefined : grouped(below);
}

function usageRows(usage: Observation['usage']): Row[] {
  return Object.entries(usage ?? {}).map(([name, value]) => [
    name,
    typeof value === 'number' ? grouped(value) : <Value value={value} label={name} />,
  ]);
}

function costRows({ cost: money, cost_source }: Observation): Row[] {
  if (money === null) return [];
  const source = cost_source === 'sent' ? 'sent by the client' : 'computed from the tokens';
  return [
    ['Input', cost(money.input)],
    ['Output', cost(money.output)],
    ['Total', cost(money.total)],
    ['Source', source],
  ];
}

/** Values of the client that gave no field, because they are malformed. */
function ignoredRows({ ignored }: Observation): Row[] {
  return ignored.map(({ path, reason }) => [path, reason]);
}

function textRows(texts: Readonly<Record<string, string>> | null): Row[] {
  return Object.entries(texts ?? {}).map(([name, text]) => [
    name,
    <LongText key={name} text={text} first={1_000} />,
  ]);
}

function Tree({ title, value }: { title: string; value: unknown }): JSX.Element | null {
  if (value === null || value === undefined) return null;
  if (isRecord(value) && Object.keys(value).length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <Json value={value} label={title} />
    </section>
  );
}

/** The error of the observation, and the exceptions of its events that it does not repeat. */
function Exceptions({ data }: { readonly data: Observation }): JSX.Element | null {
  const found = exceptionsOf(data);
  if (found.length === 0) return null;
  return (
    <>
      {found.map(({ type, message, stack }, index) => (
        <section key={index} class="exception">
          <h3 class="bad user-text">{(textOf(type) ?? 'Error').slice(0, 200)}</h3>
          {typeof message === 'string' && message !== '' && <LongText text={message} />}
          {typeof stack === 'string' && stack !== '' && <LongText text={stack} isMono />}
        </section>
      ))}
    </>
  );
}

/** Events that have a row of their own. */
const EVENTS = 100;

/** The events of the observation as a list; any other form is shown as JSON. */
function Events({ data }: { readonly data: Observation }): JSX.Element | null {
  const { events, start_time } = data;
  if (!Array.isArray(events) || events.length > EVENTS || !events.every(isRecord)) {
    return <Tree title="Events" value={events} />;
  }
  if (events.length === 0) return null;
  const start = instantOf(start_time);
  return (
    <section>
      <h3>Events</h3>
      <ol class="event-list">
        {events.map((event, index) => (
          <EventItem key={index} event={event} start={start} label={`Event ${index + 1}`} />
        ))}
      </ol>
    </section>
  );
}

type EventProps = {
  readonly event: Readonly<Record<string, unknown>>;
  /** Of the observation, milliseconds since 1970. */
  readonly start: number;
  readonly label: string;
};

function EventItem({ event, start, label }: EventProps): JSX.Element {
  const { name, time } = event;
  const since = instantOf(typeof time === 'string' ? time : null) - start;
  const attributes = useMemo(() => attributesOf(event), [event]);
  const hasMore = isRecord(attributes) && Object.keys(attributes).length > 0;
  return (
    <li>
      <div class="event-head">
        <span class="muted event-time" title={exact(textOf(time))}>
          {Number.isNaN(since) ? '–' : `+${duration(since)}`}
        </span>
        <LongText text={textOf(name) ?? 'event'} first={200} />
      </div>
      {hasMore && <Value value={attributes} label={label} />}
    </li>
  );
}

function attributesOf({ name, time, ...rest }: EventProps['event']): unknown {
  return 'attributes' in rest && Object.keys(rest).length === 1 ? rest['attributes'] : rest;
}
