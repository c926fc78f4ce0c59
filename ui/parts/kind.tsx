import type { JSX } from 'preact';
import type { TreeObservation } from '../api/types.ts';
import type { IconName } from './icon.tsx';
import { Icon } from './icon.tsx';

type Kind = NonNullable<TreeObservation['kind']>;
type Look = { readonly icon: IconName; readonly hue: number };

const LOOKS: Readonly<Record<Kind, Look>> = {
  generation: { icon: 'model', hue: 1 },
  llm: { icon: 'model', hue: 1 },
  model: { icon: 'model', hue: 1 },
  embedding: { icon: 'embedding', hue: 1 },
  tool: { icon: 'tool', hue: 3 },
  retriever: { icon: 'search', hue: 2 },
  agent: { icon: 'agent', hue: 4 },
  chain: { icon: 'chain', hue: 4 },
  graph: { icon: 'chain', hue: 4 },
  evaluator: { icon: 'evaluator', hue: 6 },
  guardrail: { icon: 'guardrail', hue: 6 },
  event: { icon: 'event', hue: 5 },
  span: { icon: 'span', hue: 5 },
};

/** The number of the token `--hue-N` of a kind. */
export function hueOf(kind: TreeObservation['kind']): number {
  return kind === null ? 5 : LOOKS[kind].hue;
}

type Props = {
  readonly kind: TreeObservation['kind'];
  readonly isIconOnly?: boolean;
};

/** The kind of an observation: by icon, color and text. */
export function KindMark({ kind, isIconOnly = false }: Props): JSX.Element {
  const text = kind ?? 'no kind';
  return (
    <span class={`kind hue-${hueOf(kind)}`} title={text}>
      <Icon name={kind === null ? 'span' : LOOKS[kind].icon} />
      {!isIconOnly && ` ${text}`}
    </span>
  );
}
