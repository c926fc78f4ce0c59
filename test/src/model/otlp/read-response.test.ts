import fc from 'fast-check';
import t from 'tap';
import { readExportResponse, readStatusMessage } from '../../../../src/model/otlp/read-response.ts';

/** `{"partialSuccess":{"rejectedSpans":2,"errorMessage":"x"}}` in protobuf. */
const PARTIAL = Buffer.from([0x0a, 5, 0x08, 2, 0x12, 1, 0x78]);
/** A field that a later version of the message may have. */
const UNKNOWN = Buffer.from([0x7a, 1, 0]);
const REJECTED = { rejectedSpans: 2, errorMessage: 'x' };
const NOTHING = { rejectedSpans: 0, errorMessage: '' };

t.test('reads a partial success in protobuf, whatever unknown fields follow', async (t) => {
  t.same(await readExportResponse(PARTIAL, false), REJECTED);
  t.same(await readExportResponse(Buffer.concat([PARTIAL, UNKNOWN]), false), REJECTED);
  t.same(await readExportResponse(Buffer.concat([UNKNOWN, PARTIAL]), false), REJECTED);
});

t.test('reads a partial success in JSON, with the count as text or as a number', async (t) => {
  for (const count of ['2', 2]) {
    const body = JSON.stringify({
      later: 1,
      partialSuccess: { ...REJECTED, rejectedSpans: count },
    });
    t.same(await readExportResponse(Buffer.from(body), true), REJECTED);
  }
});

t.test('reads an empty response as a full success', async (t) => {
  for (const body of [
    '',
    ' ',
    '{}',
    ' { }\n',
    '{"partialSuccess":null}',
    '{"partialSuccess":{}}',
  ]) {
    t.same(await readExportResponse(Buffer.from(body), true), NOTHING, JSON.stringify(body));
  }
  t.same(await readExportResponse(Buffer.alloc(0), false), NOTHING);
  t.same(await readExportResponse(UNKNOWN, false), NOTHING);
});

t.test('rejects a body that is no export response', async (t) => {
  for (const body of ['[]', '[1]', 'null', '1', '<html>', '{"partialSuccess":', '{} {}']) {
    t.equal(await readExportResponse(Buffer.from(body), true), undefined, body);
  }
  for (let end = 1; end < PARTIAL.length; end++) {
    t.equal(await readExportResponse(PARTIAL.subarray(0, end), false), undefined, `cut at ${end}`);
  }
  const cutFixed = Buffer.from([0x79, 1, 2, 3]);
  t.equal(await readExportResponse(cutFixed, false), undefined, 'a cut field of 64 bits');
});

t.test('counts a rejected count that is not positive or not exact as none', async (t) => {
  for (const count of [-1, 0, 1.5, 2 ** 53, 'many', {}, [], null]) {
    const body = Buffer.from(JSON.stringify({ partialSuccess: { rejectedSpans: count } }));
    t.same(await readExportResponse(body, true), NOTHING, JSON.stringify(count));
  }
  const most = { partialSuccess: { rejectedSpans: Number.MAX_SAFE_INTEGER } };
  const read = await readExportResponse(Buffer.from(JSON.stringify(most)), true);
  t.equal(read?.rejectedSpans, Number.MAX_SAFE_INTEGER);
  const minusOne = Buffer.from([0x0a, 11, 0x08, ...Array<number>(9).fill(0xff), 1]);
  t.same(await readExportResponse(minusOne, false), NOTHING, 'a negative int64');
});

t.test('never throws and never reads a negative count', async (t) => {
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    fc.jsonValue().map((value) => Buffer.from(JSON.stringify({ partialSuccess: value }))),
  );
  await fc.assert(
    fc.asyncProperty(body, fc.boolean(), async (body, isJson) => {
      const answer = await readExportResponse(body, isJson);
      readStatusMessage(body, isJson);
      t.ok(answer === undefined || answer.rejectedSpans >= 0);
    }),
  );
});

t.test('reads the message of a status in both encodings', async (t) => {
  t.equal(readStatusMessage(Buffer.from([0x12, 1, 0x78]), false), 'x');
  t.equal(readStatusMessage(Buffer.from([0x12, 2, 0x78]), false), undefined);
  t.equal(readStatusMessage(Buffer.from('{"message":"x"}'), true), 'x');
  t.equal(readStatusMessage(Buffer.from('{"message":1}'), true), undefined);
  t.equal(readStatusMessage(Buffer.from('<p>'), true), undefined);
});
