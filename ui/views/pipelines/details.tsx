import type { JSX } from 'preact';
import { bytes, duration, grouped, NOTHING } from '../../parts/format.ts';
import { Time } from '../../parts/time.tsx';
import type { PipelineNode, Rates } from './rates.ts';
import { rateText } from './rates.ts';

const COUNTERS: readonly (readonly [keyof PipelineNode['counters'], string])[] = [
  ['requests', 'Requests'],
  ['failed_requests', 'Refused or failed requests'],
  ['items_in', 'Items in'],
  ['items_out', 'Items out'],
  ['items_edited', 'Items edited'],
  ['items_rejected', 'Items rejected'],
  ['items_dropped', 'Items dropped'],
  ['items_failed', 'Items failed'],
  ['retries', 'Retries'],
];

type Props = {
  readonly node: PipelineNode;
  readonly rates: Rates | undefined;
  readonly since: string;
};

/** The numbers of one component. */
export function Details({ node, rates, since }: Props): JSX.Element {
  const { counters, latency, codes, health } = node;
  return (
    <section class="card details" aria-labelledby="details-title">
      <div class="details-head">
        <h2 id="details-title" class="user-text">
          {node.name}
        </h2>
        <span class="muted">
          {node.kind} <code>{node.type}</code>
          {node.pipeline !== null && (
            <>
              {' '}
              in <code>{node.pipeline}</code>
            </>
          )}
          . Counting began <Time at={since} />.
        </span>
      </div>
      {health?.message !== null && health?.message !== undefined && (
        <p class="warn user-text">{health.message}</p>
      )}
      <dl class="details-numbers">
        {COUNTERS.map(([name, label]) => {
          const value = counters[name];
          return (
            value !== undefined && (
              <div key={name}>
                <dt>{label}</dt>
                <dd>
                  {grouped(value)} <span class="muted">{rateText(rates?.[name])}</span>
                </dd>
              </div>
            )
          );
        })}
        {latency !== null && <Latency of={latency} />}
      </dl>
      <Codes title="Rejected by code" codes={codes.rejected} />
      <Codes title="Requests refused by code" codes={codes.refused} />
      <Codes title="Dropped by reason" codes={codes.dropped} />
      <Codes title="Failed by code" codes={codes.failed} />
      {node.queue !== null && <Queue of={node.queue} />}
      <HealthDetails health={health} />
    </section>
  );
}

function Latency({ of }: { readonly of: NonNullable<PipelineNode['latency']> }): JSX.Element {
  const mean = of.count === 0 ? null : (of.sum_seconds / of.count) * 1000;
  const ms = (seconds: number | null): string => duration(seconds === null ? null : seconds * 1000);
  return (
    <>
      <div>
        <dt>Latency, half below</dt>
        <dd>{ms(of.p50_seconds)}</dd>
      </div>
      <div>
        <dt>Latency, 95 % below</dt>
        <dd>{ms(of.p95_seconds)}</dd>
      </div>
      <div>
        <dt>Latency, mean</dt>
        <dd>{duration(mean)}</dd>
      </div>
    </>
  );
}

type CodesProps = { readonly title: string; readonly codes: Readonly<Record<string, number>> };

function Codes({ title, codes }: CodesProps): JSX.Element | null {
  const all = Object.entries(codes).sort(([, a], [, b]) => b - a);
  if (all.length === 0) return null;
  return (
    <div>
      <h3>{title}</h3>
      <dl class="details-numbers">
        {all.map(([code, count]) => (
          <div key={code}>
            <dt>
              <code class="user-text">{code}</code>
            </dt>
            <dd>{grouped(count)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Queue({ of }: { readonly of: NonNullable<PipelineNode['queue']> }): JSX.Element {
  const room = of.max_bytes === null ? '' : ` of ${bytes(of.max_bytes)}`;
  return (
    <div>
      <h3>Queue</h3>
      <dl class="details-numbers">
        <div>
          <dt>Waiting or in delivery</dt>
          <dd>{grouped(of.entries)}</dd>
        </div>
        <div>
          <dt>In delivery</dt>
          <dd>{grouped(of.leased)}</dd>
        </div>
        <div>
          <dt>Items</dt>
          <dd>{of.items === null ? NOTHING : grouped(of.items)}</dd>
        </div>
        <div>
          <dt>Oldest entry</dt>
          <dd>
            <Time at={of.oldest_at} />
          </dd>
        </div>
        <div>
          <dt>Bytes</dt>
          <dd>{of.bytes === null ? NOTHING : `${bytes(of.bytes)}${room}`}</dd>
        </div>
        <div>
          <dt>Dead letters</dt>
          <dd>{grouped(of.dead_letters)}</dd>
        </div>
        {of.quarantined !== null && (
          <div>
            <dt>Damaged entries</dt>
            <dd>{grouped(of.quarantined)}</dd>
          </div>
        )}
      </dl>
      {of.branches.length > 1 && (
        <ul class="details-branches">
          {of.branches.map((branch) => (
            <li key={branch.exporter}>
              <code class="user-text">{branch.exporter}</code>: {grouped(branch.entries)} entries,{' '}
              {grouped(branch.leased)} in delivery, oldest <Time at={branch.oldest_at} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function HealthDetails({ health }: Pick<PipelineNode, 'health'>): JSX.Element | null {
  const details = Object.entries(health?.details ?? {}).filter(([, value]) => value !== null);
  if (health === null || details.length === 0) return null;
  return (
    <details>
      <summary>Health: {health.ready && health.healthy ? 'good' : 'needs attention'}</summary>
      <dl class="details-numbers">
        {details.map(([name, value]) => (
          <div key={name}>
            <dt>{name.replaceAll('_', ' ')}</dt>
            <dd class="user-text">{typeof value === 'number' ? grouped(value) : String(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
