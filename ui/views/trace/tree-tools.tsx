import type { JSX } from 'preact';
import { Icon } from '../../parts/icon.tsx';

type Props = {
  readonly filter: string;
  /** Observations that match the filter. */
  readonly matches: number | undefined;
  readonly onFilter: (text: string) => void;
  /** Absent if no observation failed. */
  readonly onError: (() => void) | undefined;
  readonly onSlowest: (() => void) | undefined;
  /** Absent if only roots have children, and none is collapsed. */
  readonly onCollapse: (() => void) | undefined;
  readonly isCollapsed: boolean;
};

/** The bar above the tree. */
export function TreeTools(props: Props): JSX.Element {
  const { filter, matches, onFilter, onError, onSlowest, onCollapse, isCollapsed } = props;
  return (
    <div class="tree-tools">
      <input
        type="search"
        aria-label="Filter observations"
        placeholder="Filter by name, kind, model, error or id"
        value={filter}
        onInput={({ currentTarget }) => onFilter(currentTarget.value)}
      />
      {matches !== undefined && (
        <span class="muted" role="status">
          {matches} {matches === 1 ? 'match' : 'matches'}
        </span>
      )}
      {onError !== undefined && (
        <button type="button" class="quiet" title="Key e" onClick={onError}>
          <Icon name="warning" /> Next error
        </button>
      )}
      {onSlowest !== undefined && (
        <button
          type="button"
          class="quiet"
          title="Key s: the observation with the longest time of its own, then the next one"
          onClick={onSlowest}
        >
          <Icon name="running" /> Slowest
        </button>
      )}
      {onCollapse !== undefined && (
        <button type="button" class="quiet" onClick={onCollapse}>
          {isCollapsed ? 'Expand all' : 'Collapse all'}
        </button>
      )}
    </div>
  );
}
