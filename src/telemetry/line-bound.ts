type Fields = Readonly<Record<string, unknown>>;
type Write = (fields: Fields, message: string) => void;

type Window = { readonly startsAt: number; lines: number; suppressed: number };

/** Milliseconds for which lines with one text are counted. */
const WINDOW_MS = 10_000;

/**
 * Bounds the lines that one text can bring, so that a client whose requests log something cannot flood the log or hide other
 * lines. Texts are static, so there are few of them.
 *
 *   line 1 … line `max`, `Further lines suppressed` │ 10 s │ line with `suppressed: N`
 *
 * @param max lines of one component and text in 10 s
 * @param now milliseconds; a clock that goes back begins a new window
 */
export function createLineBound(max: number, now: () => number) {
  const windows = new Map<string, Window>();

  return function bound(write: Write): Write {
    return (fields, message) => {
      const key = `${fields.component} ${message}`;
      const at = now();
      const window = windows.get(key);
      if (window === undefined || at >= window.startsAt + WINDOW_MS || at < window.startsAt) {
        windows.set(key, { startsAt: at, lines: 1, suppressed: 0 });
        const suppressed = window?.suppressed ?? 0;
        write(suppressed === 0 ? fields : { ...fields, suppressed }, message);
        return;
      }
      if (window.lines >= max) {
        window.suppressed++;
        if (window.suppressed > 1) return;
        const { component } = fields;
        const seconds = Math.ceil((window.startsAt + WINDOW_MS - at) / 1000);
        write({ component, line: message, seconds }, 'Further lines suppressed');
        return;
      }
      window.lines++;
      write(fields, message);
    };
  };
}
