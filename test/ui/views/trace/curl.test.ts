import t from 'tap';
import { curlOf } from '../../../../ui/views/trace/curl.ts';
import { scoreText, tokensOf } from '../../../../ui/views/trace/values.ts';

t.test('a command keeps a quote in the address inside of its word', async (t) => {
  t.equal(
    curlOf("http://127.0.0.1:4319/api/v1/traces/it's"),
    `curl -s 'http://127.0.0.1:4319/api/v1/traces/it'\\''s' -H "Authorization: Bearer $TRACECTL_ADMIN_TOKEN"`,
  );
});

t.test('tokens are those of input and output, or a total that was sent alone', async (t) => {
  t.same(tokensOf(null), { input: null, output: null, total: null });
  t.same(tokensOf({ input_tokens: 2 }), { input: 2, output: null, total: 2 });
  t.same(tokensOf({ total_tokens: 7 }), { input: null, output: null, total: 7 });
});

t.test('a score is a short text', async (t) => {
  t.equal(scoreText(0.1 + 0.2), '0.3');
  t.equal(scoreText(true), 'true');
  t.equal(scoreText('good'), 'good');
});
