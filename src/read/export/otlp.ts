import { REQUEST_CLOSE, REQUEST_OPEN } from '../../model/otlp/request-part.ts';
import type { TraceSource, TraceStore } from '../../store/store.ts';
import type { PayloadReader } from '../payloads.ts';
import type { Read } from '../reads.ts';
import { CutSpans, MadeSpans, SpanForms } from '../span-parts.ts';
import type { Encoder } from './encoder.ts';
import type { ObservationPages } from './steps.ts';

/** Observations of a line. More of them repeat a resource less often; a line is in memory as a whole. */
const LINE_ROWS = 200;
/** Bytes behind which a line ends. One span may be longer. */
const LINE_BYTES = 1_048_576;
/** About the bytes of a span without its inputs and outputs. */
const SPAN_BYTES = 1_024;

/** An observation, as the steps of an export have it. */
export type ExportedSource = TraceSource & { readonly traceId: string };

/** Pages of observations with their events, whose batches are looked up. */
export function sourcePages(
  traces: TraceStore,
  projectId: string,
  payloads: PayloadReader,
): ObservationPages<ExportedSource> {
  return async (traceIds, page) => {
    const [first, ...others] = traceIds;
    const found =
      first !== undefined && others.length === 0
        ? await traces.listSources(projectId, first, page)
        : await traces.listSourcesOf(projectId, traceIds, page.limit);
    await payloads.prepare(found.items.flatMap(({ events }) => events));
    const items = found.items.map((source) => ({
      ...source,
      traceId: source.observation.traceId,
    }));
    return { ...found, items };
  };
}

/**
 * Lines of which each is an ExportTraceServiceRequest in JSON. A line has all events of an observation, so that lines
 * may be sent in any order:
 *
 *   rows of a line ─▶ spans that came: cut out of their batches, in the order of their arrival ─▶ lines
 *                  └▶ observations with a native event or a run: made of all their events  ─┘
 *
 * The rows of a line wait until the line is written: a line that fails stays, and `end` tries it again.
 */
export function otlpLines(read: Read, payloads: PayloadReader): Encoder<ExportedSource> {
  const forms = new SpanForms(read, payloads);
  const cut = new CutSpans(read, payloads, 'json');
  const made = new MadeSpans(read, 'json');
  let rows = 0;
  let waiting = 0;
  /** Lines that are not taken yet: a row behind them failed. */
  let lines: Buffer = NO_BYTES;

  function takeLines(): Buffer {
    const taken = lines;
    lines = NO_BYTES;
    return taken;
  }

  async function flush(): Promise<void> {
    if (rows === 0) return;
    const joined = new Lines();
    for await (const part of cut.parts()) joined.add(part);
    joined.add(await made.part());
    lines = Buffer.concat([lines, joined.end()]);
    read.hold(lines.length);
    cut.clear();
    made.clear();
    rows = 0;
    waiting = 0;
  }

  async function add(source: ExportedSource): Promise<void> {
    const { observation } = source;
    const { spans, isMade } = await forms.of(source);
    if (spans.length > 0) {
      const { inputBytes = 0, outputBytes = 0 } = observation.details ?? {};
      cut.add(spans);
      waiting += inputBytes + outputBytes;
    }
    if (isMade) {
      const before = made.characters;
      made.add(observation, await read.turn(() => payloads.read(observation)));
      waiting += made.characters - before;
    }
    waiting += SPAN_BYTES;
    rows++;
  }

  return {
    begin: () => '',
    async row(source) {
      if (rows === LINE_ROWS || waiting >= LINE_BYTES) await flush();
      await add(source);
      return takeLines();
    },
    async end() {
      await flush();
      return takeLines();
    },
    get waiting() {
      return waiting;
    },
    close: async () => {},
  };
}

/** Joins parts to lines of about `LINE_BYTES`. */
class Lines {
  readonly #pieces: Buffer[] = [];
  #lineBytes = 0;

  add(part: Buffer | undefined): void {
    if (part === undefined || part.length === 0) return;
    if (this.#lineBytes > 0 && this.#lineBytes + part.length > LINE_BYTES) this.#endLine();
    this.#pieces.push(this.#lineBytes === 0 ? OPEN : COMMA, onOneLine(part));
    this.#lineBytes += part.length;
  }

  end(): Buffer {
    if (this.#lineBytes > 0) this.#endLine();
    return Buffer.concat(this.#pieces);
  }

  #endLine(): void {
    this.#pieces.push(CLOSE);
    this.#lineBytes = 0;
  }
}

const NO_BYTES = Buffer.alloc(0);
const OPEN = Buffer.from(REQUEST_OPEN);
const CLOSE = Buffer.from(`${REQUEST_CLOSE}\n`);
const COMMA = Buffer.from(',');
const [LF, CR, SPACE] = [0x0a, 0x0d, 0x20];

/** Keeps the spelling of the client. In JSON, line ends are only allowed as white space between tokens. */
function onOneLine(part: Buffer): Buffer {
  if (!part.includes(LF) && !part.includes(CR)) return part;
  const bytes = Buffer.from(part);
  for (const [i, byte] of bytes.entries()) if (byte === LF || byte === CR) bytes[i] = SPACE;
  return bytes;
}
