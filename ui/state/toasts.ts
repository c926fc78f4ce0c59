import { signal } from '@preact/signals';
import { ApiFailure } from '../api/client.ts';

type Toast = { readonly id: number; readonly text: string; readonly isError: boolean };

/** Milliseconds that a message shows. Errors stay until they are closed. */
const SHOWN_MS = 4_000;

export const toasts = signal<readonly Toast[]>([]);
let lastId = 0;

/** Says that something worked. */
export function done(text: string): void {
  const id = add(text, false);
  setTimeout(() => closeToast(id), SHOWN_MS);
}

/** Says that something failed. */
export function failed(error: unknown): void {
  add(ApiFailure.of(error).message, true);
}

export function closeToast(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

function add(text: string, isError: boolean): number {
  lastId += 1;
  toasts.value = [...toasts.value.slice(-3), { id: lastId, text, isError }];
  return lastId;
}
