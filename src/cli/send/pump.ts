import type { Piece, Position } from './piece.ts';
import type { Stop } from './stop.ts';

/** Takes pieces to where they go. */
export type Delivery = {
  open(): Promise<void>;
  /** True when the destination has answered for all of it; false where the end came before. */
  deliver(piece: Piece): Promise<boolean>;
  /** Breaks off whatever is under way. */
  close(): Promise<void>;
};

export type Pace = {
  /** Requests under way at once. */
  readonly concurrency: number;
  /** Spans a second; undefined is as fast as they are taken. */
  readonly rate: number | undefined;
};

/**
 * Sends pieces in order, several at once, until there are no more or the end comes. Resolves with the place
 * to go on from where not all was sent; undefined where all is answered for, or comes from no file.
 */
export async function pump(
  pieces: AsyncIterator<Piece>,
  start: Position,
  delivery: Delivery,
  stop: Stop,
  { concurrency, rate }: Pace,
): Promise<Position | undefined> {
  // In order: the first of them is where to go on from.
  const unanswered = new Set<Piece>();
  const underWay = new Set<Promise<void>>();
  let next: Position | undefined = start;
  let clearAt = 0;
  for (;;) {
    while (underWay.size >= concurrency) await Promise.race(underWay);
    const piece = await nextOf(pieces, stop);
    if (piece === undefined) break;
    next = piece.next;
    unanswered.add(piece);
    const now = Date.now();
    await stop.sleep(clearAt - now);
    if (rate !== undefined) clearAt = Math.max(clearAt, now) + (piece.spans / rate) * 1000;
    const work = delivery
      .deliver(piece)
      .then((isAnswered) => void (isAnswered && unanswered.delete(piece)))
      .finally(() => underWay.delete(work));
    underWay.add(work);
  }
  await Promise.all(underWay);
  if (stop.reason === undefined) return undefined;
  const [first] = unanswered;
  return first === undefined ? next : first.from;
}

/** Reading may take for ever, as it does from a terminal: the end does not wait for it. */
async function nextOf(pieces: AsyncIterator<Piece>, stop: Stop): Promise<Piece | undefined> {
  if (stop.reason === undefined) {
    const read = await stop.before(pieces.next());
    if (read !== undefined) return read.done === true ? undefined : read.value;
  }
  pieces.return?.().catch(() => {});
  return undefined;
}
