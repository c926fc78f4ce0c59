import t from 'tap';
import { uiCookie } from '../../../extensions/admin/ui-cookie.ts';

const PLAIN = 'tracectl-ui-a=one';
const SECURE = '__Host-tracectl-ui-a=two';

t.test('a listener with TLS reads only the cookie that no other origin can set', async (t) => {
  const cookie = uiCookie('a', true);
  t.equal(cookie.read({ cookie: PLAIN }), undefined);
  t.equal(cookie.read({ cookie: `${PLAIN}; ${SECURE}` }), 'two');
});

t.test('a listener without TLS reads the cookie of either form', async (t) => {
  const cookie = uiCookie('a', false);
  t.equal(cookie.read({ cookie: PLAIN }), 'one');
  t.equal(cookie.read({ cookie: `${PLAIN}; ${SECURE}` }), 'two', 'behind a proxy with TLS');
  t.equal(cookie.read({ cookie: 'tracectl-ui-ab=one' }), undefined, 'of another daemon');
});
