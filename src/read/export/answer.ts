import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exchange } from '../../http/exchange.ts';
import { beginAnswer, clientDrained } from '../answer.ts';
import type { Read } from '../reads.ts';
import type { Piece } from './encoder.ts';

/** Characters of an answer that are sent together. */
const CHUNK_CHARACTERS = 65_536;
/** A text is held twice: as a string, and as the bytes that are sent. */
const COPIES = 2;

/** The trailers that say where an export ended. */
export const TRAILERS = {
  rows: 'tracectl-export-rows',
  complete: 'tracectl-export-complete',
  next: 'tracectl-export-next',
  error: 'tracectl-export-error',
} as const;

export type ExportEnd = {
  readonly rows: number;
  /** The value of `after` behind the last row; null at the end of the export. */
  readonly next: string | null;
  /** The code of the error that ended the export; undefined if none did. */
  readonly error: string | undefined;
};

/** The answer to an export: pieces at the pace of the client, and trailers that say where it ended. */
export class ExportAnswer {
  readonly #exchange: Exchange;
  readonly #read: Read;
  readonly #headers: Readonly<Record<string, string>>;
  #text = '';
  #sent = 0;

  constructor(exchange: Exchange, read: Read, headers: Readonly<Record<string, string>>) {
    this.#exchange = exchange;
    this.#read = read;
    this.#headers = headers;
  }

  get hasBegun(): boolean {
    return this.#exchange.response.headersSent;
  }

  /** About the bytes of the answer, sent or not. */
  get bytes(): number {
    return this.#sent + this.#text.length;
  }

  /** Undefined: more fits. Else the promise resolves when the client takes more, or rejects once it is gone. */
  add(piece: Piece): Promise<void> | undefined {
    if (typeof piece === 'string') {
      this.#text += piece;
      return this.#text.length < CHUNK_CHARACTERS ? undefined : this.#sendText();
    }
    return piece.length === 0 ? undefined : this.#sendBytes(piece);
  }

  end({ rows, next, error }: ExportEnd): void {
    const { response } = this.#exchange;
    this.#begin();
    if (this.#text !== '') response.write(this.#text);
    response.addTrailers({
      [TRAILERS.rows]: String(rows),
      [TRAILERS.complete]: String(next === null),
      ...(next === null ? {} : { [TRAILERS.next]: next }),
      ...(error === undefined ? {} : { [TRAILERS.error]: error }),
    });
    response.end();
  }

  #begin(): void {
    if (this.#exchange.response.headersSent) return;
    const trailer = Object.values(TRAILERS).join(', ');
    beginAnswer(this.#exchange, { ...this.#headers, trailer });
  }

  async #sendText(): Promise<void> {
    this.#read.hold(this.#text.length * COPIES);
    const bytes = Buffer.from(this.#text);
    this.#text = '';
    await this.#write(bytes);
  }

  async #sendBytes(bytes: Uint8Array): Promise<void> {
    if (this.#text !== '') await this.#sendText();
    this.#read.hold(bytes.length);
    await this.#write(bytes);
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#begin();
    this.#sent += bytes.length;
    if (this.#exchange.response.write(bytes)) await nextTurn();
    else await clientDrained(this.#exchange);
    this.#read.signal.throwIfAborted();
  }
}
