import type { Test } from 'tap';
import t from 'tap';
import { processTerminal } from '../../../src/cli/terminal.ts';

/** Stdout and stderr as a terminal of so many columns shows them. */
function showing(t: Test, columns: number) {
  for (const stream of [process.stdout, process.stderr]) {
    for (const [name, value] of Object.entries({ isTTY: true, columns })) {
      const before = Object.getOwnPropertyDescriptor(stream, name);
      Object.defineProperty(stream, name, { value, configurable: true, writable: true });
      t.teardown(() => {
        if (before === undefined) Reflect.deleteProperty(stream, name);
        else Object.defineProperty(stream, name, before);
      });
    }
  }
  return processTerminal();
}

t.test('a terminal has its columns, and 80 if it does not know them', async (t) => {
  for (const [columns, shown] of [
    [132, 132],
    [1, 1],
    [0, 80],
  ] as const) {
    const terminal = showing(t, columns);
    t.equal(terminal.columns?.(), shown);
    t.equal(terminal.screen?.columns(), shown);
  }
});

t.test('a command that a signal interrupted ends with the status of the signal', async (t) => {
  for (const [signal, status] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    const terminal = showing(t, 80);
    const heard: string[] = [];
    const forget = terminal.onInterrupt?.((each) => void heard.push(each));
    process.emit(signal, signal);
    forget?.();
    t.same(heard, [signal]);
    t.equal(await terminal.end(130), status);
    t.equal(await terminal.end(1), 1, 'another failure keeps its status');
  }
});
