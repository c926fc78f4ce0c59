import { hash } from 'node:crypto';
import t from 'tap';
import type { AttachmentLimits } from '../../../../src/model/attachments.ts';
import { attachmentType, MAX_ATTACHMENTS } from '../../../../src/model/attachments.ts';
import type { JsonIndex } from '../../../../src/model/batch-index.ts';
import type { ObservationDetails } from '../../../../src/model/details.ts';
import { checkedDetails } from '../../../../src/model/details.ts';
import { indexOf, MAX_BODY_BYTES, measure, observe } from '../../../../src/model/formats.ts';
import { assembleRuns } from '../../../../src/model/runs/assemble.ts';
import { withAttachmentBytes } from '../../../../src/model/runs/attached.ts';
import { rawBatch, received } from '../../../helper/batches.ts';

const BOUNDARY = 'b';
const SCAN = { maxItems: 1000, maxDepth: 514 };
const LIMITS: AttachmentLimits = {
  ...{ maxBytes: 10, perRun: 2, perRequest: 3, requestBytes: 25 },
};

type Given = readonly [name: string, content: string | Buffer, type?: string];

function assembled(parts: readonly Given[], limits: Partial<AttachmentLimits> = {}) {
  const pieces = parts.flatMap(([name, content, type = 'application/json']) => [
    Buffer.from(
      `--b\r\nContent-Disposition: form-data; name="${name}"\r\nContent-Type: ${type}\r\n\r\n`,
    ),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  const body = Buffer.concat([...pieces, Buffer.from('--b--\r\n')]);
  const made = assembleRuns(body, BOUNDARY, SCAN, { ...LIMITS, ...limits });
  const batch = rawBatch('runs', made.body, made.index.count);
  return { ...made, batch, details: observe(batch).map(({ details }) => details) };
}

function sha256(text: string | Buffer): string {
  return hash('sha256', text, 'hex');
}

const run = (id: string): Given => [`post.${id}`, JSON.stringify({ id })];

t.test('a run has the names, types, sizes and hashes of its attachments', async (t) => {
  const bytes = Buffer.from([0, 255, 13, 10, 45, 45, 97]);
  const { attachments, leftOut, details, body } = assembled([
    ['attachment.b.image', bytes, 'Image/PNG; length=7'],
    run('a'),
    ['patch.b', '{"id":"b"}'],
    ['attachment.a.__proto__', 'text', 'text/plain'],
    ['attachment.a.with.dots', '', 'nonsense'],
  ]);
  const [proto, dots] = [
    { name: '__proto__', contentType: 'text/plain', bytes: 4, sha256: sha256('text') },
    { name: 'with.dots', contentType: 'application/octet-stream', bytes: 0, sha256: sha256('') },
  ];
  const image = { name: 'image', contentType: 'image/png', bytes: 7, sha256: sha256(bytes) };
  t.same(
    details.map((of) => of?.attachments),
    [[proto, dots], [image]],
  );
  t.same(
    details.map((of) => of?.ignored),
    [undefined, undefined],
  );
  t.same(
    attachments.map(({ item, content }) => [item, content.toString('latin1')]),
    [
      [0, 'text'],
      [0, ''],
      [1, bytes.toString('latin1')],
    ],
  );
  t.same(leftOut, { attachments: 0, others: 0 });
  t.notMatch(body.toString(), '"text"', 'the bytes are not in the batch');
});

t.test('an attachment beyond a limit is left out, and its run says so', async (t) => {
  const outcome = (parts: readonly Given[], limits: Partial<AttachmentLimits> = {}) => {
    const { details, attachments, leftOut, faults } = assembled(parts, limits);
    t.same(faults, []);
    t.equal(leftOut.attachments + attachments.length, parts.length - details.length);
    return details.map((of) => [
      of?.attachments?.map(({ name }) => name),
      of?.ignored?.map(({ path, reason }) => `${path} ${reason}`),
    ]);
  };
  const file = (of: string, name: string, bytes: number): Given => [
    ...([`attachment.${of}.${name}`, 'x'.repeat(bytes)] as const),
  ];
  t.same(outcome([run('a'), file('a', 'f', 10)]), [[['f'], undefined]]);
  const large = 'has more bytes than an attachment, or the attachments of a request, may have';
  const many = 'is one more than a run, or a request, may have';
  t.same(outcome([run('a'), file('a', 'f', 11)]), [[undefined, [`attachments[0] ${large}`]]]);
  const three = [run('a'), file('a', 'f', 1), file('a', 'g', 1), file('a', 'h', 1)];
  t.same(outcome(three), [[['f', 'g'], [`attachments[2] ${many}`]]]);
  t.same(outcome(three, { perRun: 3 }), [[['f', 'g', 'h'], undefined]]);
  t.same(outcome([...three, run('b'), file('b', 'i', 1)]), [
    [['f', 'g'], [`attachments[2] ${many}`]],
    [['i'], undefined],
  ]);
  t.same(outcome([...three, run('b'), file('b', 'i', 1), file('b', 'j', 1)]), [
    [['f', 'g'], [`attachments[2] ${many}`]],
    [['i'], [`attachments[1] ${many}`]],
  ]);
  const sum = [run('a'), file('a', 'f', 10), file('a', 'g', 10), run('b'), file('b', 'h', 5)];
  t.same(outcome(sum), [
    [['f', 'g'], undefined],
    [['h'], undefined],
  ]);
  t.same(outcome(sum, { requestBytes: 24 }), [
    [['f', 'g'], undefined],
    [undefined, [`attachments[0] ${large}`]],
  ]);
});

t.test('a name that comes twice has the bytes that came last', async (t) => {
  const { details, attachments } = assembled([
    ['attachment.a.f', 'first'],
    run('a'),
    ['attachment.a.f', 'second'],
  ]);
  t.match(details, [{ attachments: [{ name: 'f', sha256: sha256('second') }] }]);
  t.match(attachments, [{ item: 0, sha256: sha256('second') }]);
  t.equal(attachments.length, 1);
});

t.test('an attachment without its run is counted', async (t) => {
  const { leftOut, attachments } = assembled([run('a'), ['attachment.other.f', 'x']]);
  t.same([leftOut, attachments], [{ attachments: 1, others: 0 }, []]);
});

t.test(
  'the bytes of attachments count as usage, also when the batch is measured again',
  async (t) => {
    const { batch } = assembled([run('a'), ['attachment.a.f', 'x'.repeat(7)], run('b')]);
    const before = measure(received(batch));
    t.same(before, { events: 2, bytes: 7 });
    t.same(measure(received(rawBatch('runs', Buffer.from(batch.body), 2))), before);
  },
);

t.test('sizes that a client names itself count as no more than a body can have', async (t) => {
  const note = { mime_type: 'a/b', bytes: Number.MAX_SAFE_INTEGER, sha256: 'f'.repeat(64) };
  const usageOf = (bytes: number) => {
    const attachments = { f: { ...note, bytes }, g: { ...note, bytes } };
    const body = JSON.stringify({
      post: [
        { id: 'a', attachments },
        { id: 'b', attachments },
      ],
    });
    return measure(received(rawBatch('runs', Buffer.from(body), 2)));
  };
  t.same(usageOf(Number.MAX_SAFE_INTEGER), { events: 2, bytes: MAX_BODY_BYTES });
  t.same(usageOf(MAX_BODY_BYTES / 4), { events: 2, bytes: MAX_BODY_BYTES });
  t.same(usageOf(MAX_BODY_BYTES / 4 - 1), { events: 2, bytes: MAX_BODY_BYTES - 4 });
});

t.test('what a client writes in place of a note is ignored', async (t) => {
  const detailsOf = (attachments: unknown): ObservationDetails | null | undefined => {
    const body = Buffer.from(JSON.stringify({ post: [{ id: 'a', attachments }], patch: [] }));
    const batch = rawBatch('runs', body, 1);
    t.ok(measure(received(batch)).bytes >= 0);
    t.equal(indexOf(batch).count, 1);
    return observe(batch)[0]?.details;
  };
  const good = { mime_type: 'a/b', bytes: 1, sha256: 'f'.repeat(64) };
  t.match(detailsOf({ f: good }), { attachments: [{ name: 'f' }] });
  for (const bad of [
    { ...good, sha256: 'F'.repeat(64) },
    { ...good, sha256: 'f'.repeat(63) },
    { ...good, bytes: -1 },
    { ...good, bytes: 0.5 },
    { ...good, bytes: 2 ** 53 },
    { ...good, bytes: '1' },
    { bytes: 1, left_out: 'toString' },
    ...[[], null, 'x', ['image/png', 'base64']],
  ]) {
    const ignored = [{ path: 'attachments', reason: 'are not stored' }];
    t.same(detailsOf({ f: bad }), { ignored }, JSON.stringify(bad));
  }
  const many = Array.from({ length: MAX_ATTACHMENTS + 1 }, (_, i) => [`f${i}`, good]);
  t.equal(detailsOf(Object.fromEntries(many))?.attachments?.length, MAX_ATTACHMENTS);
  const long = detailsOf({ ['x'.repeat(300)]: good })?.attachments?.[0]?.name;
  t.equal(long?.length, 255);
});

t.test('details of another program do not refer to attachments here', async (t) => {
  const { details } = assembled([run('a'), ['attachment.a.f', 'x']]);
  const passedOn = checkedDetails(JSON.parse(JSON.stringify(details[0])));
  t.match(passedOn, {
    ignored: [{ path: 'attachments', reason: 'are not passed on: a span has no files' }],
  });
  t.notOk(passedOn && 'attachments' in passedOn);
});

t.test('a media type is lower case, without parameters', async (t) => {
  for (const [given, type] of [
    ['text/plain', 'text/plain'],
    [' Image/SVG+xml ; charset=utf-8; length=4', 'image/svg+xml'],
    ['', 'application/octet-stream'],
    ['text', 'application/octet-stream'],
    ['text/plain/x', 'application/octet-stream'],
    ['text/pl ain', 'application/octet-stream'],
    ['text/\u00fc', 'application/octet-stream'],
    [`a/${'b'.repeat(125)}`, `a/${'b'.repeat(125)}`],
    [`a/${'b'.repeat(126)}`, 'application/octet-stream'],
  ] as const) {
    t.equal(attachmentType(given), type, given.slice(0, 50));
  }
});

t.test('a sum that a thread made counts as the one that the notes give', async (t) => {
  const { batch } = assembled([run('a'), ['attachment.a.x', 'text'], run('b')]);
  const { index } = received(batch);
  const summed = withAttachmentBytes(index as JsonIndex);
  t.same(summed.besideBytes, Float64Array.of(4, 0));
  t.same(measure({ ...received(batch), index: summed }), measure(received(batch)));
});
