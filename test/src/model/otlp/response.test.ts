import t from 'tap';
import { renderExportResponse, renderRpcStatus } from '../../../../src/model/otlp/response.ts';
import { decodeResponse, decodeRpcStatus } from '../../../helper/otlp-proto.ts';

t.test('responses', async (t) => {
  const [json, proto] = ['application/json', 'application/x-protobuf'];
  const rejection = (index: number) =>
    ({ index, code: 'invalid_field', reason: `spans[${index}].traceId must be 16 bytes` }) as const;

  t.test('are empty if every span was accepted', async (t) => {
    t.equal(renderExportResponse([], json).toString(), '{}');
    t.equal(renderExportResponse([], proto).length, 0);
  });

  t.test('have the number of rejected spans and the first reasons', async (t) => {
    const rejections = Array.from({ length: 1000 }, (_, i) => rejection(i));
    const asJson = JSON.parse(renderExportResponse(rejections, json).toString());
    t.equal(asJson.partialSuccess.rejectedSpans, 1000);
    t.match(asJson.partialSuccess.errorMessage, /^invalid_field: spans\[0\].* and \d+ more$/);
    t.ok(Buffer.byteLength(asJson.partialSuccess.errorMessage) <= 2048);
    t.same(decodeResponse(renderExportResponse(rejections, proto)), asJson);
    t.match(decodeResponse(renderExportResponse([rejection(3)], proto)), {
      partialSuccess: {
        rejectedSpans: 1,
        errorMessage: 'invalid_field: spans[3].traceId must be 16 bytes',
      },
    });
  });

  t.test('are a google.rpc.Status for an error', async (t) => {
    const codes = { 400: 3, 401: 16, 402: 8, 403: 7, 404: 5, 405: 12, 409: 10, 413: 3, 415: 3 };
    for (const [status, code] of Object.entries({ ...codes, 429: 8, 503: 14 })) {
      const text = renderRpcStatus(Number(status), 'no', json).toString();
      t.equal(text, `{"code":${code},"message":"no"}`);
      t.same(decodeRpcStatus(renderRpcStatus(Number(status), 'no', proto)), {
        code,
        message: 'no',
      });
    }
    const long = JSON.parse(renderRpcStatus(400, 'é'.repeat(5000), json).toString());
    t.equal(long.message, 'é'.repeat(1024));
  });
});
