import t from 'tap';
import { preferredType } from '../../../src/read/accept.ts';

const JSON_TYPE = 'application/json';
const PROTO = 'application/x-protobuf';

t.test('an Accept header prefers the type with the largest weight', async (t) => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ['application/json', JSON_TYPE],
    ['application/x-protobuf', PROTO],
    ['Application/X-Protobuf', PROTO],
    ['application/x-protobuf, application/json', PROTO],
    ['application/json, application/x-protobuf', JSON_TYPE],
    ['application/x-protobuf;q=0.1, application/json', JSON_TYPE],
    ['application/json; q=0.1 ,application/x-protobuf; q=0.2', PROTO],
    ['text/html, application/x-protobuf;q=.5', PROTO],
    ['application/json;q=0', undefined],
    ['application/json;q=0, */*', PROTO],
    ['application/x-protobuf;q=0, application/*', JSON_TYPE],
    ['application/*;q=0.5, application/x-protobuf;q=0.4', JSON_TYPE],
    ['*/*, application/x-protobuf', PROTO],
    ['*/*', JSON_TYPE],
    ['application/*', JSON_TYPE],
    ['text/*', undefined],
    ['', undefined],
    ['application/json;q=x', undefined],
    ['application/json;q=2', undefined],
  ];
  for (const [accept, type] of cases) {
    t.equal(preferredType(accept, [JSON_TYPE, PROTO]), type, accept);
  }
});
