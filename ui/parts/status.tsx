import type { JSX } from 'preact';
import type { Trace } from '../api/types.ts';
import type { IconName } from './icon.tsx';
import { Icon } from './icon.tsx';

type Props = {
  readonly status: Trace['status'];
  readonly state: Trace['state'];
  /** For rows of a table or tree: the text is there for screen readers and on hover. */
  readonly isIconOnly?: boolean;
};

type Look = { readonly text: string; readonly icon: IconName; readonly tone: string };

/** The end of a trace or an observation: by icon, text and color. */
export function Status({ status, state, isIconOnly = false }: Props): JSX.Element {
  const { text, icon, tone } = lookOf(status, state);
  if (isIconOnly) {
    return (
      <span class={`status ${tone}`} role="img" aria-label={text} title={text}>
        <Icon name={icon} />
      </span>
    );
  }
  return (
    <span class={`badge status ${tone}`}>
      <Icon name={icon} /> {text}
    </span>
  );
}

function lookOf(status: Trace['status'], state: Trace['state']): Look {
  if (state === 'error' || status === 'error') {
    return { text: 'Error', icon: 'warning', tone: 'bad' };
  }
  if (status === 'cancelled') return { text: 'Cancelled', icon: 'stop', tone: 'warn' };
  if (state === 'interrupted' || status === 'interrupted') {
    return { text: 'Interrupted', icon: 'stop', tone: 'warn' };
  }
  if (state === 'running') return { text: 'Running', icon: 'running', tone: 'active' };
  if (status === 'success' || status === 'ok') {
    return { text: 'Success', icon: 'check', tone: 'good' };
  }
  return { text: 'Finished', icon: 'check', tone: '' };
}
