import type { JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Comparison } from '../../state/terms.ts';
import { printScore, scoreTerms, withoutTerm, withTerm } from '../../state/terms.ts';

type Props = {
  readonly query: string;
  /** Names of scores that a person may mean. */
  readonly names: readonly string[];
  readonly onSearch: (query: string) => void;
};

const COMPARISONS: readonly { readonly name: Comparison; readonly label: string }[] = [
  { name: '>=', label: 'at least' },
  { name: '<=', label: 'at most' },
  { name: '=', label: 'equal to' },
];

/** Adds terms on scores to the query: no facet counts scores, because most of their values differ. */
export function ScoreFilter({ query, names, onSearch }: Props): JSX.Element {
  const terms = scoreTerms(query);
  const [isOpen, setOpen] = useState(terms.length > 0);
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Score {terms.length > 0 && <span class="badge">{terms.length}</span>}</summary>
      <ul>
        {terms.map((term) => (
          <li key={term}>
            <button
              type="button"
              class="quiet"
              aria-pressed
              title={term}
              onClick={() => onSearch(withoutTerm(query, term))}
            >
              <span class="cut">{term.replace('score.', '')}</span>
            </button>
          </li>
        ))}
      </ul>
      {isOpen && <ScoreForm names={names} onAdd={(term) => onSearch(withTerm(query, term))} />}
    </details>
  );
}

type FormProps = {
  readonly names: readonly string[];
  readonly onAdd: (term: string) => void;
};

function ScoreForm({ names, onAdd }: FormProps): JSX.Element {
  const [name, setName] = useState('');
  const [comparison, setComparison] = useState<Comparison>('>=');
  const [value, setValue] = useState('');
  const list = useId();
  const add = (event: Event): void => {
    event.preventDefault();
    onAdd(termOf(name.trim(), comparison, value.trim()));
    setName('');
    setValue('');
  };
  return (
    <form class="score-filter" onSubmit={add}>
      <input
        aria-label="Name of the score"
        placeholder="Name"
        required
        maxLength={200}
        pattern=".*\S.*"
        autocomplete="off"
        list={list}
        value={name}
        onInput={({ currentTarget }) => setName(currentTarget.value)}
      />
      <datalist id={list}>
        {names.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <select
        aria-label="Comparison"
        value={comparison}
        onChange={({ currentTarget }) =>
          setComparison(COMPARISONS.find((each) => each.name === currentTarget.value)?.name ?? '=')
        }
      >
        {COMPARISONS.map((each) => (
          <option key={each.name} value={each.name}>
            {each.label}
          </option>
        ))}
      </select>
      <input
        aria-label="Value of the score"
        placeholder="any value"
        maxLength={1_000}
        autocomplete="off"
        // Only numbers are more or less than others.
        {...(comparison === '=' ? {} : { pattern: NUMBER, title: 'A number, such as 0.8' })}
        value={value}
        onInput={({ currentTarget }) => setValue(currentTarget.value)}
      />
      <button type="submit">Add</button>
    </form>
  );
}

const NUMBER = String.raw`\s*-?(\d+(\.\d*)?|\.\d+)\s*`;
const IS_NUMBER = new RegExp(`^(?:${NUMBER})$`);

/** Without a value, the traces with any score of the name. */
function termOf(name: string, comparison: Comparison, value: string): string {
  if (value === '') return printScore(name);
  return printScore(name, IS_NUMBER.test(value) ? Number(value) : value, comparison);
}
