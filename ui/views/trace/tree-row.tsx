import type { JSX } from 'preact';
import type { TreeObservation } from '../../api/types.ts';
import { cost, count, duration, NOTHING } from '../../parts/format.ts';
import { Icon } from '../../parts/icon.tsx';
import { hueOf, KindMark } from '../../parts/kind.tsx';
import { Status } from '../../parts/status.tsx';
import { beginning, nameText, visible } from '../../parts/text-pieces.ts';
import type { Bar, TimeScale } from './time-scale.ts';
import { barOf } from './time-scale.ts';
import type { TreeLayout } from './tree-layout.ts';
import { isOrphan, observationAt } from './tree-layout.ts';
import { tokensOf } from './values.ts';

type Props = {
  readonly id: string;
  readonly layout: TreeLayout;
  readonly row: number;
  readonly scale: TimeScale;
  /** Its own milliseconds on the critical path; NaN if it is not on it. */
  readonly criticalMs: number;
  readonly isActive: boolean;
  readonly isShown: boolean;
  readonly isCollapsed: boolean;
  readonly isTraceRunning: boolean;
  readonly onChoose: (row: number) => void;
  readonly onToggle: (row: number) => void;
};

/** Deeper rows are not indented further, so that their names stay visible. */
const DEEPEST_INDENT = 10;
/** Characters of a name: more would only be cut by the style. */
const NAME = 200;

/** An observation in the tree. */
export function TreeRow(props: Props): JSX.Element | null {
  const { id, layout, row, isActive, isShown, isCollapsed, onChoose, onToggle } = props;
  const each = observationAt(layout, row);
  if (each === undefined) return null;
  const depth = layout.depths[row] ?? 0;
  const below = (layout.sizes[row] ?? 1) - 1;
  const name = visible(nameText(each.name, NAME));
  const isFailed = each.state === 'error';
  const latency = latencyText(each, props.isTraceRunning);
  const tokens = tokensOf(each.usage).total;
  const classes = ['row', isActive && 'is-active', isShown && 'is-shown', isFailed && 'is-failed'];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys.
    // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus.
    <div
      id={id}
      class={classes.filter(Boolean).join(' ')}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={isShown}
      {...(below > 0 ? { 'aria-expanded': !isCollapsed } : {})}
      onClick={() => onChoose(row)}
    >
      <span
        class="row-name"
        style={{ paddingLeft: `calc(${Math.min(depth, DEEPEST_INDENT)} * var(--indent))` }}
      >
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the keys left and right do the same. */}
        {/* biome-ignore lint/a11y/noStaticElementInteractions: a part of the row, for a pointer only. */}
        <span
          class="row-fold"
          onClick={(event) => {
            if (below === 0) return;
            event.stopPropagation();
            onToggle(row);
          }}
        >
          {below > 0 && <Icon name={isCollapsed ? 'right' : 'down'} />}
        </span>
        {depth > DEEPEST_INDENT && <span class="row-depth">{depth}</span>}
        <KindMark kind={each.kind} isIconOnly />
        <span class="cut row-text" title={titleOf(each, name)}>
          {name}
        </span>
        {isCollapsed && below > 0 && <span class="badge">{count(below)}</span>}
        <span class="unseen">
          , {each.kind}
          {Number.isNaN(props.criticalMs) ? '' : ', on the critical path'}
        </span>
        <Marks each={each} isOrphan={isOrphan(layout, row)} />
      </span>
      <Lane {...props} each={each} />
      <span class="row-number" title={latency}>
        {latency}
      </span>
      <Amount text={count(tokens)} isCounted={each.counted} />
      <Amount text={cost(each.cost?.total)} isCounted={each.cost_counted} />
    </div>
  );
}

/** Tokens or cost; grey if the trace does not count them, because a child or a parent repeats them. */
function Amount({ text, isCounted }: { text: string; isCounted: boolean }): JSX.Element {
  const isNothing = text === NOTHING;
  const classes = ['row-number', isNothing && 'is-nothing', (isNothing || !isCounted) && 'muted'];
  return (
    <span class={classes.filter(Boolean).join(' ')} title={text}>
      {text}
    </span>
  );
}

function latencyText(each: TreeObservation, isTraceRunning: boolean): string {
  if (each.latency_ms === null && isTraceRunning && each.state === 'running') return 'running';
  return duration(each.latency_ms);
}

function titleOf(each: TreeObservation, name: string): string {
  const error = each.error === null ? undefined : (each.error.message ?? each.error.type);
  const parts = [name, each.kind, each.model, error];
  return parts
    .filter((part) => typeof part === 'string')
    .map((part) => visible(beginning(part, NAME)))
    .join('\n');
}

function Marks({
  each,
  isOrphan: hasNoParent,
}: {
  readonly each: TreeObservation;
  readonly isOrphan: boolean;
}): JSX.Element | null {
  const isEnded = each.state === 'finished' && each.status !== 'cancelled';
  const why = each.cycle
    ? 'Its parents form a cycle, which is broken here.'
    : 'Its parent is not in the trace.';
  return (
    <>
      {!isEnded && <Status status={each.status} state={each.state} isIconOnly />}
      {hasNoParent && (
        <span class="warn row-orphan" role="img" aria-label={why} title={why}>
          <Icon name="external" />
        </span>
      )}
    </>
  );
}

/** The bar of an observation in the time of the trace. */
function Lane({
  each,
  layout,
  row,
  scale,
  criticalMs,
  isTraceRunning,
}: Props & { readonly each: TreeObservation }): JSX.Element {
  const bar = barOf(scale, {
    start: layout.starts[row] ?? Number.NaN,
    end: layout.ends[row] ?? Number.NaN,
    ttft: each.ttft_ms,
    isRunning: isTraceRunning && each.state === 'running',
  });
  if (bar === undefined) return <span class="lane lane-empty" title="No start and no end" />;
  const isCritical = !Number.isNaN(criticalMs);
  const isOutside = bar.form === 'before' || bar.form === 'after';
  const critical = isCritical ? `\nOn the critical path: ${duration(criticalMs)} of its own` : '';
  return (
    <span class="lane" title={FORM_TITLES[bar.form] + critical}>
      <span
        class={`bar hue-${hueOf(each.kind)} is-${bar.form} ${isCritical ? 'is-critical' : ''}`}
        style={{ left: `${bar.left * 100}%`, width: isOutside ? '6px' : `${bar.width * 100}%` }}
      />
      {bar.tick !== undefined && (
        <span class="bar-tick" style={{ left: `${bar.tick * 100}%` }} title="First token" />
      )}
    </span>
  );
}

const FORM_TITLES: Readonly<Record<Bar['form'], string>> = {
  full: '',
  open: 'Running',
  point: 'No end',
  reversed: 'It ends before it starts.',
  before: 'Before the range of the trace: the clock is far off.',
  after: 'After the range of the trace: the clock is far off.',
};
