import type { Consumer } from '../component/component.ts';
import type { Batch, ItemFailure } from '../model/batch.ts';
import { PermanentError } from '../model/errors.ts';
import { hasItems } from '../model/formats.ts';
import type { DeadLetterReason } from './queue.ts';

/** Characters of a dead letter's message. */
const MAX_MESSAGE = 1000;

/**
 * Hands a batch on; resolves with its items that nobody has now: no observation could be made of them, or the
 * consumer refuses them for good. Rejects where it has none of them.
 */
export async function handOn(batch: Batch, consumer: Consumer): Promise<readonly ItemFailure[]> {
  const unreadable = (batch.kind === 'observations' ? batch.failures : undefined) ?? [];
  // Where no item could be read there is nothing to hand on.
  if (!hasItems(batch)) return unreadable;
  try {
    await consumer.consume(batch);
    return unreadable;
  } catch (error) {
    if (!(error instanceof PermanentError) || error.failures === undefined) throw error;
    return [...unreadable, ...error.failures];
  }
}

/** What a dead letter says of items whose siblings were delivered. */
export function reasonOf(failures: readonly ItemFailure[]): DeadLetterReason {
  const message = failures.map(({ index, message }) => `item ${index}: ${message}`).join('; ');
  const code = failures[0]?.code ?? 'invalid_item';
  return { code, message: cutMessage(message), items: failures.length };
}

export function cutMessage(message: string): string {
  return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
}
