import { effect, signal } from '@preact/signals';
import { recall, remember } from './storage.ts';

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const stored = recall('theme');

/** `system` follows the setting of the browser. */
export const theme = signal<Theme>(THEMES.find((each) => each === stored) ?? 'system');

effect(() => {
  document.documentElement.dataset['theme'] = theme.value;
  remember('theme', theme.value);
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';
}
