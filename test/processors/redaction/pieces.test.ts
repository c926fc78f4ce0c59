import t from 'tap';
import { config } from '../../../processors/redaction/config.ts';
import { piecesOf } from '../../../processors/redaction/pieces.ts';
import { Redactor } from '../../../processors/redaction/redactor.ts';
import { STORED_LIMITS, scan } from '../../../src/model/formats.ts';
import { rawBatch, received } from '../../helper/batches.ts';

const PIECE = 131_072;
const OVERLAP = 24_576;
/** One starts with the same text in every match, the other does not. */
const SOURCES = ['TCK-[0-9]{6}', '[T]CK-[0-9]{6}'];
const SECRET = 'TCK-123456';

t.test('the edges of pieces divide neither a character nor an escape', async (t) => {
  for (const unit of ['\\u0041', '\\\\', 'é', '😀', 'ab']) {
    const size = Buffer.byteLength(unit);
    const bytes = Buffer.from(unit.repeat(Math.ceil((4 * PIECE) / size)));
    const text = { start: 0, end: bytes.length, isEscaped: unit.startsWith('\\') };
    const pieces = [...piecesOf(bytes, text, true)];
    t.equal(pieces.length, 4, unit);
    for (const { start, end } of unit === 'ab' ? [] : pieces) {
      t.same([start % size, end % size], [0, 0]);
    }
  }
  t.same([...piecesOf(Buffer.alloc(1), { start: 0, end: 1, isEscaped: false }, false)], []);
  for (const [length, count] of [
    [PIECE + OVERLAP, 1],
    [PIECE + OVERLAP + 1, 2],
  ] as const) {
    const text = { start: 0, end: length, isEscaped: false };
    t.equal([...piecesOf(Buffer.alloc(length), text, true)].length, count);
  }
});

t.test('no step decodes more than a piece of a text', async (t) => {
  const longest = (inputs: object, settings: object) => {
    const body = Buffer.from(JSON.stringify({ events: [{ inputs }] }));
    const batch = received(rawBatch('native', body, scan('native', body, STORED_LIMITS).count));
    let most = 0;
    const { bytes } = batch.index;
    const original = bytes.toString.bind(bytes);
    bytes.toString = (encoding, start = 0, end = bytes.length) => {
      most = Math.max(most, end - start);
      return original(encoding, start, end);
    };
    const work = new Redactor(config.parse(settings), () => undefined).redact(batch);
    while (work.next().done !== true);
    return most;
  };
  const text = '\n'.repeat(1_000_000);
  for (const pattern of SOURCES) {
    const settings = { patterns: [{ name: 'ticket', pattern }] };
    const most = longest({ text: text + SECRET }, settings);
    t.ok(most > PIECE && most <= PIECE + OVERLAP + 8, `${pattern}: ${most}`);
  }
  t.ok(longest({ password: text }, {}) < 1_000, 'a text that is masked is not decoded');
});
