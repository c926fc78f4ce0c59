import fc from 'fast-check';
import t from 'tap';
import { pointsInJson, pointsInProto } from '../../../../src/model/otlp/count-points.ts';

function field(number: number, content: Buffer): Buffer {
  const length: number[] = [];
  let rest = content.length;
  do {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    rest >>>= 7;
  } while (rest > 0);
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), content]);
}

/** A request with metrics, each with a kind of data and a number of points. */
function request(metrics: readonly (readonly [kind: number, points: number])[]): Buffer {
  const point = field(1, Buffer.from([0x19, 1, 2, 3, 4, 5, 6, 7, 8]));
  const all = metrics.map(([kind, points]) => {
    const data = Buffer.concat([
      ...Array.from({ length: points }, () => point),
      Buffer.from([0x10, 2, 0x1d, 0, 0, 0, 0]),
    ]);
    return field(2, Buffer.concat([field(1, Buffer.from('name')), field(kind, data)]));
  });
  const scope = field(2, Buffer.concat([field(1, Buffer.alloc(0)), ...all]));
  return field(1, Buffer.concat([field(1, Buffer.from('')), scope]));
}

t.test('counts the data points of every kind', async (t) => {
  t.equal(pointsInProto(Buffer.alloc(0)), 0);
  for (const kind of [5, 7, 9, 10, 11]) t.equal(pointsInProto(request([[kind, 3]])), 3, `${kind}`);
  t.equal(pointsInProto(request([[8, 3]])), 0, 'no kind of data');
  const two = Buffer.concat([
    request([[5, 200]]),
    request([
      [7, 1],
      [9, 2],
    ]),
  ]);
  t.equal(pointsInProto(two), 203);
  const json = {
    resourceMetrics: [
      {
        scopeMetrics: [
          {
            metrics: [
              { name: 'a', gauge: { dataPoints: [{}, {}] } },
              { sum: { dataPoints: [{}] }, histogram: { dataPoints: [{}] } },
              { exponentialHistogram: { dataPoints: [{}] }, summary: { dataPoints: [{}] } },
            ],
          },
        ],
      },
    ],
  };
  t.equal(pointsInJson(Buffer.from(JSON.stringify(json))), 6);
});

t.test('reads any bytes, and refuses those that are cut', async (t) => {
  const valid = request([
    [5, 2],
    [9, 1],
  ]);
  for (let length = 1; length < valid.length; length++) {
    t.equal(pointsInProto(valid.subarray(0, length)), undefined, `${length} bytes`);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const counted = pointsInProto(Buffer.from(bytes));
      return counted === undefined || counted >= 0;
    }),
    { numRuns: 1000 },
  );
  for (const text of ['', '{', '1', 'null', '"x"']) {
    t.equal(pointsInJson(Buffer.from(text)), undefined, text);
  }
  for (const text of ['[]', '{}', '{"resourceMetrics":{}}', '{"resourceMetrics":[1,null,[]]}']) {
    t.equal(pointsInJson(Buffer.from(text)), 0, text);
  }
});
