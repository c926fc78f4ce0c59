import './search-bar.css';
import type { JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { QueryError } from '../../src/query/query.ts';
import { readFacet } from '../api/reading.ts';
import { useResource } from '../state/resource.ts';
import { mistakeOf } from '../state/terms.ts';
import { Icon } from './icon.tsx';
import type { Suggestion, Typed } from './suggest.ts';
import {
  fieldSuggestions,
  isListed,
  listedSuggestions,
  taken,
  typedAt,
  valueSuggestions,
} from './suggest.ts';

type Props = {
  readonly project: string;
  /** The query of the address. */
  readonly value: string;
  readonly onSearch: (query: string) => void;
};

const MOST_SUGGESTIONS = 12;
/** Milliseconds without a key before values are asked for. */
const PAUSE_MS = 150;

/** The search box: a query, suggestions for the word at the caret, and the mistake at its position. */
export function SearchBar({ project, value, onSearch }: Props): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  const [text, setText] = useState(value);
  const { typed, complete, chosen, setChosen } = useCompletion();
  const suggestions = useSuggestions(project, typed);
  const mistake = mistakeOf(text);
  useLayoutEffect(() => setText(value), [value]);
  useLayoutEffect(() => focusBySlash(input.current), []);

  const look = (): void => {
    const { value: now = '', selectionStart } = input.current ?? {};
    setText(now);
    complete(typedAt(now, selectionStart ?? now.length));
  };
  const take = (suggestion: Suggestion): void => {
    if (typed === undefined) return;
    const after = taken(text, typed, suggestion);
    setText(after.text);
    complete(typedAt(after.text, after.caret));
    // At once: the next key may come before the page renders.
    if (input.current !== null) {
      input.current.value = after.text;
      input.current.focus();
      input.current.setSelectionRange(after.caret, after.caret);
    }
    if (after.text.endsWith(' ') && mistakeOf(after.text) === undefined)
      onSearch(after.text.trim());
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const suggestion = suggestions[chosen];
    if (step !== undefined && suggestions.length > 0) {
      event.preventDefault();
      setChosen((chosen + step + suggestions.length + 1) % (suggestions.length + 1));
    } else if ((event.key === 'Enter' || event.key === 'Tab') && suggestion !== undefined) {
      event.preventDefault();
      take(suggestion);
    } else if (event.key === 'Escape') {
      event.preventDefault(); // It would empty the field.
      if (typed === undefined) input.current?.blur();
      complete(undefined);
    }
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    complete(undefined);
    if (mistake === undefined) onSearch(text.trim());
  };

  const isOpen = typed !== undefined && suggestions.length > 0;
  return (
    <search class="search">
      <form onSubmit={submit}>
        <div class="search-line">
          <Icon name="search" />
          <input
            ref={input}
            type="search"
            aria-label="Search traces"
            placeholder="status:error model:gpt-4o* latency:>2s “a phrase”"
            spellcheck={false}
            autocomplete="off"
            maxLength={2048}
            value={text}
            aria-autocomplete="list"
            aria-controls={list}
            aria-invalid={mistake !== undefined}
            {...(isOpen && chosen >= 0 ? { 'aria-activedescendant': `${list}-${chosen}` } : {})}
            onInput={look}
            // The button of the browser that empties the field.
            onSearch={({ currentTarget: { value: now } }) => now === '' && onSearch('')}
            onClick={look}
            onKeyDown={onKeyDown}
            onBlur={() => complete(undefined)}
          />
          <span class="search-key">/</span>
        </div>
        <Suggestions
          id={list}
          isOpen={isOpen}
          suggestions={suggestions}
          chosen={chosen}
          take={take}
        />
        {mistake !== undefined && typed === undefined && <Mistake text={text} mistake={mistake} />}
      </form>
    </search>
  );
}

/** The word that is completed, and the index of the suggestion chosen for it: -1 if none is. */
function useCompletion() {
  const [typed, setTyped] = useState<Typed | undefined>(undefined);
  const [chosen, setChosen] = useState(-1);
  const complete = (next: Typed | undefined): void => {
    setTyped(next);
    // Here, not in an effect: an effect may run after the arrow key that follows the letter.
    if (next?.field !== typed?.field || next?.prefix !== typed?.prefix) setChosen(-1);
  };
  return { typed, complete, chosen, setChosen };
}

type SuggestionsProps = {
  readonly id: string;
  readonly isOpen: boolean;
  readonly suggestions: readonly Suggestion[];
  readonly chosen: number;
  readonly take: (suggestion: Suggestion) => void;
};

function Suggestions({ id, isOpen, suggestions, chosen, take }: SuggestionsProps): JSX.Element {
  return (
    <div id={id} role="listbox" aria-label="Suggestions" class="suggestions" hidden={!isOpen}>
      {isOpen &&
        suggestions.map((each, index) => (
          <div
            key={each.text}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            onPointerDown={(event) => {
              event.preventDefault();
              take(each);
            }}
          >
            <span class="cut mono">{each.label}</span>
            <span class="cut muted">{each.note}</span>
          </div>
        ))}
    </div>
  );
}

/** The query with the character at fault marked, and the message. */
function Mistake({ text, mistake }: { readonly text: string; readonly mistake: QueryError }) {
  const { position, message } = mistake;
  const characters = [...text];
  return (
    <div class="mistake" role="alert">
      <code class="user-text">
        {characters.slice(0, position).join('')}
        <mark>{characters[position] ?? '⌴'}</mark>
        {characters.slice(position + 1).join('')}
      </code>
      <p>{message}</p>
    </div>
  );
}

/** `/` moves the focus to the search box, unless a text is edited. */
function focusBySlash(input: HTMLInputElement | null): () => void {
  const onKeyDown = (event: KeyboardEvent): void => {
    const isEdited =
      event.target instanceof Element && event.target.matches('input, textarea, select');
    if (event.key !== '/' || isEdited || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input?.focus();
    input?.select();
  };
  document.addEventListener('keydown', onKeyDown);
  return () => document.removeEventListener('keydown', onKeyDown);
}

function useSuggestions(project: string, typed: Typed | undefined): readonly Suggestion[] {
  const field = typed?.field;
  const isAsked = field !== undefined && isListed(field) && !/[<>=]/.test(typed?.prefix ?? '');
  const prefix = useDelayed(typed?.prefix ?? '');
  const { data } = useResource(isAsked ? `${project} ${field} ${prefix}` : undefined, (signal) => {
    const query = { field: field ?? '', prefix, limit: MOST_SUGGESTIONS };
    return readFacet(project, query, signal);
  });
  if (typed === undefined) return [];
  if (field === undefined) return fieldSuggestions(typed).slice(0, MOST_SUGGESTIONS);
  const listed = isAsked && data?.field === field ? listedSuggestions(typed, data.values) : [];
  if (listed.length > 0) return listed.slice(0, MOST_SUGGESTIONS);
  return valueSuggestions(typed).slice(0, MOST_SUGGESTIONS);
}

function useDelayed(value: string): string {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}
