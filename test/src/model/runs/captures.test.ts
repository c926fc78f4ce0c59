import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { observe } from '../../../../src/model/formats.ts';
import { assembleRuns } from '../../../../src/model/runs/assemble.ts';
import { boundaryOf } from '../../../../src/model/runs/multipart.ts';
import { rawBatch } from '../../../helper/batches.ts';

/** A recorded request of a LangSmith client. */
type Capture = {
  readonly file: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBase64: string;
};

const FILE = new URL('../../../fixtures/multipart/langsmith-js.json', import.meta.url);
const { captures } = JSON.parse(readFileSync(FILE, 'utf8')) as { captures: Capture[] };

type Decoded = {
  readonly runs: Record<'post' | 'patch', Record<string, unknown>[]>;
  readonly attachments: number;
};

/** The runs of a body by another decoder of multipart bodies, that of `fetch`. */
async function decoded(body: Buffer, contentType: string): Promise<Decoded> {
  const form = await new Response(body, { headers: { 'content-type': contentType } }).formData();
  const found = new Map<string, Record<string, unknown>>();
  let attachments = 0;
  for (const [name, value] of form) {
    const [verb = '', id = '', field] = name.split('.');
    if (verb === 'attachment') {
      attachments++;
      continue;
    }
    const text = typeof value === 'string' ? value : await value.text();
    const run = found.get(`${verb}.${id}`) ?? {};
    Object.assign(run, field === undefined ? JSON.parse(text) : { [field]: JSON.parse(text) });
    found.set(`${verb}.${id}`, run);
  }
  const ofVerb = (verb: string) =>
    [...found].flatMap(([name, run]) => (name.startsWith(`${verb}.`) ? [run] : []));
  return { runs: { post: ofVerb('post'), patch: ofVerb('patch') }, attachments };
}

t.test('requests of a real SDK become the runs that another decoder finds', async (t) => {
  let attachments = 0;
  for (const { file, headers, bodyBase64 } of captures) {
    const sent = Buffer.from(bodyBase64, 'base64');
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
    const contentType = headers['content-type'] ?? '';
    const limits = { maxItems: 1000, maxDepth: 514 };
    const made = assembleRuns(body, boundaryOf(contentType) ?? '', limits);
    const expected = await decoded(body, contentType);
    const { post, patch } = JSON.parse(made.body.toString()) as Decoded['runs'];
    const without = (runs: Record<string, unknown>[]) =>
      runs.map(({ attachments: _, ...run }) => run);
    t.same({ post: without(post), patch: without(patch) }, expected.runs, file);
    t.same(made.faults, [], file);
    t.equal(made.leftOut.attachments, expected.attachments, file);
    attachments += made.leftOut.attachments;
    const count = post.length + patch.length;
    t.equal(made.index.count, count);
    const observed = observe(rawBatch('runs', made.body, count));
    t.same(
      observed.map(({ id, name }) => ({ id, name })),
      [...post, ...patch].map(({ id, name }) => ({ id, name: name ?? null })),
      file,
    );
  }
  t.ok(attachments > 0, 'one of them has attachments');
});
