import type { JSX } from 'preact';

type Props = {
  readonly label: string;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
};

export function Switch({ label, isOn, onChange }: Props): JSX.Element {
  return (
    <button
      type="button"
      role="switch"
      class="switch"
      aria-checked={isOn}
      onClick={() => onChange(!isOn)}
    >
      <span class="switch-track" aria-hidden="true" /> {label}
    </button>
  );
}
