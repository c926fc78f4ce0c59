import t from 'tap';
import type { Format } from '../../../src/model/batch.ts';
import { STORED_LIMITS, scan, visitTextsInTurns } from '../../../src/model/formats.ts';
import { MEMBERS_PER_STEP } from '../../../src/model/texts.ts';
import { attributesOf, encodeRequest } from '../../helper/otlp-proto.ts';

const IDS = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) };

/** A body with one item, which has these texts in one map. */
const BODIES: Readonly<Record<Format, (texts: Record<string, string>) => Buffer>> = {
  native: (metadata) => Buffer.from(JSON.stringify({ events: [{ metadata }] })),
  runs: (inputs) => Buffer.from(JSON.stringify({ post: [{ inputs }] })),
  otlp_json: (app) => Buffer.from(JSON.stringify(request(app))),
  otlp_proto: (app) => encodeRequest(request(app)),
};

function request(app: Record<string, string>) {
  const span = { ...IDS, attributes: attributesOf({ app }) };
  return { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] };
}

for (const [format, bodyOf] of Object.entries(BODIES) as [Format, typeof BODIES.native][]) {
  t.test(
    `${format}: a walk yields after at most as many texts as a step has members`,
    async (t) => {
      const texts = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`k${i}`, `${i}`]));
      let seen = 0;
      let inStep = 0;
      const steps = visitTextsInTurns(scan(format, bodyOf(texts), STORED_LIMITS), 0, {
        text: () => {
          seen++;
          inStep++;
        },
      });
      let most = 0;
      for (const _ of steps) {
        most = Math.max(most, inStep);
        inStep = 0;
      }
      t.ok(most > 0 && most <= MEMBERS_PER_STEP, `at most ${most} texts a step`);
      t.ok(inStep <= MEMBERS_PER_STEP, `${inStep} texts in the last step`);
      t.ok(seen >= 5_000, 'every text is visited');
    },
  );
}

t.test('a walk yields at the last member of a step, and not at the one before', async (t) => {
  for (const [members, yields] of [
    [MEMBERS_PER_STEP - 1, 0],
    [MEMBERS_PER_STEP, 1],
  ] as const) {
    const item = Object.fromEntries(Array.from({ length: members }, (_, i) => [`k${i}`, 'x']));
    const index = scan('native', Buffer.from(JSON.stringify({ events: [item] })), STORED_LIMITS);
    const steps = [...visitTextsInTurns(index, 0, { text: () => undefined })];
    t.equal(steps.length, yields, `${members} members`);
  }
});

t.test('a walk over a run yields after each note of an attachment', async (t) => {
  const note = { mime_type: 'text/plain', bytes: 1, sha256: 'ab'.repeat(32) };
  const run = { id: 'a', attachments: { x: note, y: note, long: 'x'.repeat(2_000_000), z: note } };
  const body = Buffer.from(JSON.stringify({ post: [run] }));
  let seen = 0;
  const steps = visitTextsInTurns(scan('runs', body, STORED_LIMITS), 0, { text: () => seen++ });
  for (const _ of ['x', 'y']) {
    t.equal(steps.next().done, false);
    t.equal(seen, 0, 'the notes are found before the texts are visited');
  }
  t.equal(steps.next().done, true, 'nothing is read behind the longest notes');
  t.ok(seen > 0);
});
