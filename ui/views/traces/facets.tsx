import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { daemonNow } from '../../api/clock.ts';
import { readFacet } from '../../api/reading.ts';
import { count } from '../../parts/format.ts';
import { nameText } from '../../parts/text-pieces.ts';
import type { Range } from '../../state/range.ts';
import { isMuchLonger, rangeKey, shortTime } from '../../state/range.ts';
import { useResource } from '../../state/resource.ts';
import { toggleValue, valuesIn } from '../../state/terms.ts';
import { CountFailure } from './count-failure.tsx';
import { ScoreFilter } from './score-filter.tsx';

type Props = {
  readonly project: string;
  readonly query: string;
  readonly range: Range;
  /** Milliseconds between two readings of the counts; undefined for one. */
  readonly every: number | undefined;
  readonly onSearch: (query: string) => void;
};

type AllProps = Props & {
  /** Of the traces that the list shows. */
  readonly scoreNames: readonly string[];
};

const FIELDS = [
  { field: 'state', label: 'State', isOpen: true },
  { field: 'name', label: 'Name', isOpen: true },
  { field: 'model', label: 'Model', isOpen: true },
  { field: 'environment', label: 'Environment', isOpen: false },
  { field: 'user', label: 'User', isOpen: false },
  { field: 'session', label: 'Session', isOpen: false },
  { field: 'tag', label: 'Tag', isOpen: false },
  { field: 'kind', label: 'Kind', isOpen: false },
  { field: 'tool', label: 'Tool', isOpen: false },
  { field: 'release', label: 'Release', isOpen: false },
  { field: 'source', label: 'Source', isOpen: false },
] as const;

/** Values of fields with the number of traces that match the query and have them. A click adds a term, or removes it. */
export function Facets({ scoreNames, ...props }: AllProps): JSX.Element {
  return (
    <section class="facets" aria-label="Filters">
      {FIELDS.map(({ field, label, isOpen }) => (
        <Facet key={field} {...props} field={field} label={label} isOpenAtFirst={isOpen} />
      ))}
      <ScoreFilter query={props.query} names={scoreNames} onSearch={props.onSearch} />
    </section>
  );
}

type FacetProps = Props & {
  readonly field: string;
  readonly label: string;
  readonly isOpenAtFirst: boolean;
};

/** Pixels; in a window without more of them the facets are above the list, and closed at first. view.css has the same number. */
const NARROW = 1_225;
const EPOCH = new Date(0).toISOString();
const FEW = 6;
const MANY = 50;

function Facet(props: FacetProps): JSX.Element {
  const { project, query, range, every, onSearch, field, label, isOpenAtFirst } = props;
  const chosen = valuesIn(query, field);
  const [isOpen, setOpen] = useState(chosen.size > 0 || (isOpenAtFirst && innerWidth > NARROW));
  const [limit, setLimit] = useState(FEW);
  // The values beside a chosen one count too: a click on one of them adds it.
  const others = [...chosen].reduce((text, value) => toggleValue(text, field, value), query);
  const { data, failure, isLoading, reload } = useResource(
    isOpen ? [project, field, others, rangeKey(range), limit].join(' ') : undefined,
    (signal) => {
      // Without a beginning, the daemon takes the last 30 days.
      const { from = EPOCH, to } = range;
      return readFacet(project, { field, q: others, from, to, limit: limit + 1 }, signal);
    },
    { every: isOpen ? every : undefined },
  );
  const listed = data?.values.slice(0, limit) ?? [];
  const missing = [...chosen].filter((value) => !listed.some((each) => each.value === value));
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {label} {chosen.size > 0 && <span class="badge">{chosen.size}</span>}
      </summary>
      {failure !== undefined && (
        <p class="bad">
          <CountFailure failure={failure} retry={reload} />
        </p>
      )}
      {isLoading && data === undefined && <p class="muted">…</p>}
      {data !== undefined && listed.length + missing.length === 0 && <p class="muted">No values</p>}
      <ul>
        {[...missing.map((value) => ({ value, traces: undefined })), ...listed].map((each) => (
          <li key={each.value}>
            <button
              type="button"
              class="quiet"
              aria-pressed={chosen.has(each.value)}
              title={each.value}
              onClick={() => onSearch(toggleValue(query, field, each.value))}
            >
              <span class="cut">{nameText(each.value)}</span>
              <span class="muted">{count(each.traces)}</span>
            </button>
          </li>
        ))}
      </ul>
      {(data?.values.length ?? 0) > limit && limit < MANY && (
        <button type="button" class="quiet" onClick={() => setLimit(MANY)}>
          More
        </button>
      )}
      {data?.partial === true && <p class="muted">Counts of the newest traces only</p>}
      {data !== undefined && isMuchLonger(data, range, daemonNow()) && (
        <p class="muted">
          Counts since {shortTime(data.from)}
          {range.to !== undefined && ` until ${shortTime(data.to)}`} UTC
        </p>
      )}
    </details>
  );
}
