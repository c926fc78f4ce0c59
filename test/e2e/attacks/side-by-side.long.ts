import t from 'tap';
import { startDaemon } from '../daemon.ts';
import { sideBySide } from './side-by-side.ts';

/** Valid bodies that arrive beside each other, and together exceed the limit of bytes in flight. */

t.setTimeout(300_000);

const FRAMINGS = {
  'a declared length': {},
  'chunks of unknown length': { 'transfer-encoding': 'chunked' },
};

for (const [name, framing] of Object.entries(FRAMINGS)) {
  t.test(`bodies of 1.1 MB with ${name} on 32 connections are never refused`, async (t) => {
    t.same(await sideBySide(await startDaemon(t), 4, framing), { 202: 32 * 4 });
  });
}
