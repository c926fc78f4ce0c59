import type { JSX } from 'preact';
import type { Organization, Project, UsageInForce } from '../../api/types.ts';
import { bytes, count, grouped } from '../../parts/format.ts';
import { Time } from '../../parts/time.tsx';
import { percent, usedPart } from './sums.ts';

type MeterProps = {
  readonly label: string;
  readonly used: number;
  readonly limit: number | null;
  readonly resetsAt: string;
  readonly format: (value: number) => string;
};

/** Part of a limit from which on a meter warns. */
const WARNING = 0.8;

function Meter({ label, used, limit, resetsAt, format }: MeterProps): JSX.Element {
  const part = usedPart(used, limit);
  const text = limit === null ? 'no limit' : `of ${format(limit)}`;
  const state = part === undefined || part < WARNING ? '' : part < 1 ? 'is-near' : 'is-full';
  return (
    <div class="usage-meter">
      <h3>{label}</h3>
      <p>
        <strong class="usage-number" title={grouped(used)}>
          {format(used)}
        </strong>{' '}
        <span class="muted" title={limit === null ? '' : grouped(limit)}>
          {text}
        </span>
      </p>
      {part !== undefined && (
        // biome-ignore lint/a11y/useSemanticElements: the element meter takes no colors of the theme.
        <div
          class={`usage-bar ${state}`}
          role="meter"
          aria-label={label}
          aria-valuemin={0}
          aria-valuemax={limit ?? used}
          aria-valuenow={Math.min(used, limit ?? used)}
          aria-valuetext={`${format(used)} ${text}`}
        >
          <span style={{ width: `${part * 100}%` }} />
        </div>
      )}
      <p class="muted usage-reset">
        {part === undefined ? 'Counted' : `${percent(part)} used`}, starts again{' '}
        <Time at={resetsAt} />
      </p>
    </div>
  );
}

type OrganizationProps = { readonly of: Organization };

/** The usage that counts toward the plan, over all projects. */
export function OrganizationMeters({ of: { usage, limits } }: OrganizationProps): JSX.Element {
  return <Meters usage={usage} limits={limits} />;
}

type ProjectProps = { readonly of: Project; readonly usage: UsageInForce };

/** The usage of one project against its own limits. */
export function ProjectMeters({ of: { limits }, usage }: ProjectProps): JSX.Element {
  return <Meters usage={usage} limits={limits} whose=" of the project" />;
}

type MetersProps = {
  readonly usage: UsageInForce;
  readonly limits: Pick<Project['limits'], 'events_per_month' | 'bytes_per_hour'>;
  /** A part of the labels; empty for the organization. */
  readonly whose?: string;
};

function Meters({ usage: { month, hour }, limits, whose = '' }: MetersProps): JSX.Element {
  return (
    <div class="usage-meters">
      <Meter
        label={`Events${whose} this month`}
        used={month.events}
        limit={limits.events_per_month}
        resetsAt={month.resets_at}
        format={count}
      />
      <Meter
        label={`Bytes${whose} this hour`}
        used={hour.bytes}
        limit={limits.bytes_per_hour}
        resetsAt={hour.resets_at}
        format={bytes}
      />
    </div>
  );
}
