import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { apiPath, at } from '../../api/client.ts';
import type { Trace } from '../../api/types.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { DownloadLink } from '../../parts/download-link.tsx';
import { cost, count, duration, exact } from '../../parts/format.ts';
import { Icon } from '../../parts/icon.tsx';
import { Link } from '../../parts/link.tsx';
import { ListLink } from '../../parts/list-link.tsx';
import { Status } from '../../parts/status.tsx';
import { beginning, isolated, nameText, visible } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { printScore, printTerm } from '../../state/terms.ts';
import { curlOf } from './curl.ts';
import { scoreText, tokensOf } from './values.ts';

type Props = {
  readonly projectId: string;
  readonly trace: Trace;
  readonly onScores: () => void;
  readonly onDelete: () => void;
};

/** Characters of a text of a client in the head. */
const SHORT = 200;

/** The values of the whole trace, and the actions on it. */
export function TraceHead({ projectId, trace, onScores, onDelete }: Props): JSX.Element {
  const path = at`/projects/${projectId}/traces/${trace.id}`;
  const request = curlOf(location.origin + apiPath(path, { fields: 'tree' }));
  return (
    <header class="trace-head">
      <div class="trace-title">
        <Link to="/traces">Traces</Link>
        <h1 class="user-text">{shortText(trace.name) ?? 'Trace without a name'}</h1>
        <Status status={trace.status} state={trace.state} />
        <div class="actions">
          <button type="button" onClick={onScores}>
            <Icon name="evaluator" /> Scores
          </button>
          <CopyButton text={request} label="Copy as curl" />
          <DownloadLink
            class="button"
            href={apiPath(`${path}/otlp`)}
            name={`${fileName(trace.id)}.json`}
          >
            <Icon name="download" /> Download
          </DownloadLink>
          <button type="button" onClick={onDelete}>
            <Icon name="trash" /> Delete trace
          </button>
        </div>
      </div>
      <Numbers trace={trace} />
      <Labels trace={trace} />
    </header>
  );
}

function Numbers({ trace }: { readonly trace: Trace }): JSX.Element {
  const { input, output, total } = tokensOf(trace.usage);
  const tokens = `${count(input)} in, ${count(output)} out`;
  return (
    <dl class="facts">
      <Fact name="Started" title={exact(trace.start_time)}>
        <Time at={trace.start_time} />
        {trace.clock_skew && (
          <span
            class="warn"
            title="Some observations have clocks that are far off. They do not count."
          >
            {' '}
            clock skew
          </span>
        )}
      </Fact>
      <Fact name="Latency">{duration(trace.latency_ms)}</Fact>
      {trace.ttft_ms !== null && <Fact name="First token">{duration(trace.ttft_ms)}</Fact>}
      <Fact name="Tokens" title={tokens}>
        {count(total)}
        {total !== null && <span class="muted"> ({tokens})</span>}
      </Fact>
      <Fact name="Cost">{cost(trace.cost?.total)}</Fact>
      <Fact name="Observations">{count(trace.observation_count)}</Fact>
      {trace.error_count > 0 && (
        <Fact name="Errors">
          <span class="bad">{count(trace.error_count)}</span>
        </Fact>
      )}
      <Fact name="Id">
        <code class="cut">{visible(trace.id)}</code>
        <CopyButton text={trace.id} label="Copy trace id" isIconOnly />
      </Fact>
    </dl>
  );
}

type FactProps = {
  readonly name: string;
  readonly title?: string;
  readonly children: ComponentChildren;
};

function Fact({ name, title, children }: FactProps): JSX.Element {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd {...(title === undefined ? {} : { title })}>{children}</dd>
    </div>
  );
}

/** Labels that show before a person asks for all of them. */
const SHOWN = 12;

type Label = { readonly id: string; readonly view: JSX.Element };

/** User, session, models, tags, custom fields and scores. */
function Labels({ trace }: { readonly trace: Trace }): JSX.Element | null {
  const [isWhole, setWhole] = useState(false);
  const labels = labelsOf(trace);
  if (labels.length === 0) return null;
  const shown = isWhole ? labels : labels.slice(0, SHOWN);
  return (
    <ul class="labels">
      {shown.map(({ id, view }) => (
        <li key={id}>{view}</li>
      ))}
      {shown.length < labels.length && (
        <li>
          <button type="button" class="quiet" onClick={() => setWhole(true)}>
            {labels.length - shown.length} more
          </button>
        </li>
      )}
    </ul>
  );
}

function labelsOf(trace: Trace): Label[] {
  const { user_id, session_id, environment, release, models, tags } = trace;
  const named = (name: string, value: string | null, to?: string): Label[] =>
    value === null ? [] : [{ id: name, view: <Chip name={name} value={value} to={to} /> }];
  const listed = (field: string, values: readonly (string | null)[], name = field): Label[] =>
    values
      .filter((value) => value !== null)
      .map((value) => ({
        id: `${field} ${value}`,
        view: <Chip name={name} value={value} q={printTerm(field, value)} />,
      }));
  return [
    ...named('user', user_id, at`/users/${user_id ?? ''}`),
    ...named('session', session_id, at`/sessions/${session_id ?? ''}`),
    ...listed('environment', [environment]),
    ...listed('release', [release]),
    ...listed('model', models),
    ...listed('tag', tags),
    ...Object.entries(trace.scores).map(([name, value]) => ({
      id: `s${name}`,
      view: (
        <Chip
          name={`score ${name}`}
          value={scoreText(value)}
          q={printScore(name, value)}
          isStrong
        />
      ),
    })),
    ...Object.entries(trace.custom_fields).flatMap(([name, value]) =>
      listed(`custom.${name}`, [value], name),
    ),
  ];
}

type ChipProps = {
  readonly name: string;
  readonly value: string;
  readonly to?: string | undefined;
  /** The query of the list that has the traces with the value. */
  readonly q?: string;
  readonly isStrong?: boolean;
};

function Chip({ name, value, to, q = '', isStrong = false }: ChipProps): JSX.Element {
  const text = <span class="cut">{shortText(value) ?? '""'}</span>;
  return (
    <span
      class={isStrong ? 'chip is-strong' : 'chip'}
      title={[name, value].map((each) => isolated(shortText(each) ?? '""')).join(': ')}
    >
      <span class="chip-name cut">{shortText(name)}</span>
      {to !== undefined && <Link to={to}>{text}</Link>}
      {to === undefined && <ListLink q={q}>{text}</ListLink>}
    </span>
  );
}

function shortText(text: string | null): string | undefined {
  return text === null || text === '' ? undefined : visible(nameText(text, SHORT));
}

function fileName(id: string): string {
  return beginning(id, 80).replace(/[^\w.-]/g, '_');
}
