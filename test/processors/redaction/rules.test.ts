import t, { type Test } from 'tap';
import { masked, redacted, redactedText } from './redacting.ts';

/** Texts in which only the secret between the angle brackets is masked. */
function finds(t: Test, texts: readonly string[], written: object = { keys: [] }): void {
  for (const marked of texts) {
    const secrets = [...marked.matchAll(/⟨([\s\S]*?)⟩/g)].map(([, secret = '']) => secret);
    const text = marked.replaceAll(/[⟨⟩]/g, '');
    t.equal(redactedText(text, written), masked(text, ...secrets), text.slice(0, 80));
  }
}

function keeps(t: Test, texts: readonly string[], written: object = { keys: [] }): void {
  for (const text of texts) t.equal(redactedText(text, written), text, text.slice(0, 80));
}

t.test('api_keys: masks a key with everything that could belong to it', async (t) => {
  finds(t, [
    '⟨sk-proj-abcdefghijklmnop⟩',
    'OPENAI: ⟨sk-abcdefgh12345678⟩, next',
    'keysk-notes ⟨sk-ant-api03-abcdefghijklmnop-qrs⟩',
    '⟨sk-or-v1-0123456789abcdef0123456789abcdef⟩\n',
    'x⟨hf_abcdefghijABCDEFGHIJ⟩',
    '"⟨ghp_abcdefghijklmnopqrstuvwxyz0123456789⟩"',
    '⟨AIzaSyA-1234567890abcdefghijklmnopqrstu_-tail⟩ end',
    '⟨SG.abcdefghijklmnop.qrstuvwxyz0123456789⟩',
    '(⟨xoxb-1234567890-abcdef⟩)',
  ]);
});

t.test('api_keys: masks a key with slashes that JSON spells as escapes', async (t) => {
  const body = String.raw`{"events":[{"inputs":"whsec_ab\/cdefghijklmnopqrstuvwxyz1234567="}]}`;
  const result = redacted('native', body).toString();
  t.notMatch(result, /cdefgh|whsec/);
  t.doesNotThrow(() => JSON.parse(result));
});

t.test('api_keys: keeps words, identifiers and short texts with such a prefix', async (t) => {
  keeps(t, [
    'risk-management-framework-of-the-company',
    'task-force-2024-list-of-members',
    'sk-abcdefgh1234567',
    'hf_transformersmodelconfig',
    'hf_abcdefghij123456789',
    'npm_config_registry_of_the_company_1',
    'aws_session_manager_plugin_2_for_the_company',
    'SKIP and TASK, SK12',
    'SG.com',
  ]);
});

t.test('cloud_keys: masks ids of AWS keys, and secret keys behind their names', async (t) => {
  finds(t, [
    'id ⟨AKIAIOSFODNN7EXAMPLE⟩.',
    '{"SecretAccessKey": "⟨wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟩"}',
    'AWS_SECRET_ACCESS_KEY=⟨wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟩ next',
    'AccountName=x;AccountKey=⟨Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6==⟩;Suffix=y',
  ]);
  keeps(t, ['AKIAIOSFODNN7EXAMPL', 'AKIA is a prefix', 'ASIA PACIFIC REGION TABLE']);
});

t.test('jwt: masks all parts', async (t) => {
  finds(t, [
    'Bearer ⟨eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U⟩.',
    '⟨eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.⟩',
    'a=⟨eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..iv-iv.cipher-text.tag-tag⟩&b',
  ]);
  keeps(t, ['eyJhbGciOiJIUzI1NiJ9', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0', 'eyJ.eyj.x']);
});

t.test('private_keys: masks the whole block, or its Base64 if it is cut off', async (t) => {
  const lines = `${'A'.repeat(64)}\n${'b'.repeat(64)}\n`;
  const head = '-----BEGIN RSA PRIVATE KEY-----\n';
  finds(t, [
    `⟨${head}Proc-Type: 4,ENCRYPTED\n\n${lines}-----END RSA PRIVATE KEY-----⟩\nnext`,
    `⟨-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${lines}=abcd\n-----END PGP PRIVATE KEY BLOCK-----⟩.`,
    `⟨${head}${lines.trimEnd()}⟩\n\nis cut off`,
    `⟨-----BEGIN PRIVATE KEY-----⟩ is the first line of a key`,
  ]);
  keeps(t, [
    `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----`,
    `-----BEGIN PUBLIC KEY-----\n${lines}-----END PUBLIC KEY-----`,
    '| a | b |\n|-----|-----|',
  ]);
});

t.test('credit_cards: masks valid numbers as they are written on cards', async (t) => {
  finds(t, [
    'pay ⟨4111111111111111⟩ now',
    '⟨4111 1111 1111 1111⟩',
    '⟨4111-1111-1111-1111⟩',
    'since 2024 ⟨5555 5555 5555 4444⟩ 12',
    '⟨3782 822463 10005⟩, ⟨378282246310005⟩',
    '⟨30569309025904⟩ ⟨3056 930902 5904⟩',
    'card⟨4111111111111111⟩x',
    '⟨4222222222222⟩ has 13 digits',
    '["⟨4111111111111111⟩","⟨6011111111111117⟩"]',
  ]);
});

t.test('credit_cards: keeps other numbers', async (t) => {
  keeps(t, [
    '4111111111111112',
    '41111111111111111',
    '411111111111',
    '1111111111111117',
    '4111 1111-1111 1111',
    '4111  1111 1111 1111',
    '0.4111111111111111 and 4.111111111111111 and 4111111111111111.5',
    'id 5b4111111111111111aaaaaa5b411111',
    '00004111-1111-1111-1111-111111111111',
    '1763672400025000000',
    '2026-01-02 03:04:05.123456',
  ]);
});

t.test('email: masks addresses', async (t) => {
  finds(t, [
    'to ⟨jane.doe+x@example.co.uk⟩.',
    'mailto:⟨jane@example.com⟩?subject=x',
    "'⟨jane@example.com⟩'",
    '<⟨jürgen@bücher.example⟩>',
    '⟨a@b.co⟩,⟨c@d.org⟩',
    'https://user:⟨pass@example.com⟩/path',
  ]);
  keeps(t, ['@example.com', 'jane@localhost', 'a @ b.com', 'x@1.2.3', 'logo@2x.png', '@media x.y']);
});

t.test('iban: masks valid numbers', async (t) => {
  finds(t, [
    'IBAN ⟨DE89 3704 0044 0532 0130 00⟩.',
    'IBAN⟨GB29NWBK60161331926819⟩',
    '⟨NO93 8601 1117 947⟩ is the shortest',
    '⟨MT84MALT011000012345MTLCAST001S⟩',
    '⟨DE89-3704-0044-0532-0130-00⟩ BIC',
  ]);
  keeps(t, [
    'DE88370400440532013000',
    'DE8937040044053201300',
    'DE893704004405320130001',
    'de89370400440532013000',
    'XX89370400440532013000',
    'DE89  3704 0044 0532 0130 00',
  ]);
});

t.test('phone: is off by default', async (t) => {
  const texts = [
    'call ⟨+49 170 1234567⟩',
    '⟨(415) 555-2671⟩',
    '⟨415-555-2671⟩',
    'x ⟨+14155552671⟩',
  ];
  finds(t, texts, { rules: { phone: 'mask' } });
  keeps(t, [...texts.map((text) => text.replaceAll(/[⟨⟩]/g, '')), '1+2']);
});

t.test('each rule can be switched off, and has an action of its own', async (t) => {
  const text = 'jane@example.com 4111111111111111';
  t.equal(redactedText(text, { rules: { email: 'off' } }), 'jane@example.com ****************');
  t.equal(
    redactedText(text, { rules: { email: 'remove', credit_cards: 'off' } }),
    '[REMOVED] 4111111111111111',
  );
  const hashed = redactedText(text, { rules: { email: 'hash' }, hash_key: '0123456789abcdef' });
  t.match(hashed, /^\[HASH:[0-9a-f]{16}\] \*{16}$/);
});

t.test('of matches that overlap, the longest decides', async (t) => {
  const patterns = [{ name: 'name', pattern: 'jane@', action: 'remove' }];
  t.equal(redactedText('to jane@example.com', { patterns }), 'to ****************');
  const whole = [{ name: 'line', pattern: 'to .*', action: 'remove' }];
  t.equal(redactedText('to jane@example.com', { patterns: whole }), '[REMOVED]');
  const partly = [{ name: 'part', pattern: 'com and more and more', action: 'remove' }];
  t.equal(redactedText('jane@example.com and more and more.', { patterns: partly }), '[REMOVED].');
});
