import type { ServerHttp2Stream } from 'node:http2';
import { constants } from 'node:http2';
import type { Clock } from '../component/component.ts';

/** Milliseconds for a client to take its answer: the default of `write_timeout` over HTTP. */
export const ANSWER_MS = 30_000;
/** Milliseconds for a client to finish a message that was already answered. */
export const LINGER_MS = 1_000;

/**
 * Ends a stream that its client leaves open behind the answer, because an open stream has a place:
 *
 *   answer begins ─▶ sent, but the message goes on ─ LINGER_MS ─┬▶ stream reset ─ ANSWER_MS: still open ─▶ connection cut
 *         └────────▶ not taken ───────────────────── ANSWER_MS ─┘
 *
 * It listens on the stream itself, because the library answers some calls without their handler: those whose deadline passed, and those with
 * a malformed timeout.
 */
export function boundAnswer(stream: ServerHttp2Stream, clock: Clock): void {
  const { respond } = stream;
  let cancel = (): void => {};
  const reset = (code: number): void => {
    const { session } = stream;
    // A client that reads nothing at all does not take the reset either.
    cancel = clock.after(ANSWER_MS, () => session?.destroy());
    stream.close(code);
  };
  stream.respond = (...given) => {
    cancel = clock.after(ANSWER_MS, () => reset(constants.NGHTTP2_CANCEL));
    respond.apply(stream, given);
  };
  stream.once('finish', () => {
    if (stream.readableEnded) return;
    cancel();
    // The rest of the message is discarded until the reset, which makes the client stop.
    cancel = clock.after(LINGER_MS, () => reset(constants.NGHTTP2_NO_ERROR));
  });
  stream.once('close', () => cancel());
}
