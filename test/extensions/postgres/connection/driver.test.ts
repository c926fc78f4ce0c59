import { readFileSync } from 'node:fs';
import pg from 'pg';
import t from 'tap';
import { driverOf, loadDriver } from '../../../../extensions/postgres/connection/driver.ts';

t.test('accepts the version of the driver that package.json names', async (t) => {
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const installed = JSON.parse(readFileSync('node_modules/pg/package.json', 'utf8'));
  t.equal(installed.version, dependencies.pg, 'an exact version');
  const driver = await loadDriver();
  t.equal(driver.Query, pg.Query);
});

t.test('refuses a driver whose queries work differently', async (t) => {
  const { Query } = pg;
  class Incomplete {
    submit(): void {}
  }
  class SendsMore extends Query {
    override submit = (connection: pg.Connection): void => {
      Query.prototype.submit.call(this, connection);
      connection.flush();
    };
  }
  class SendsSimply extends Query {
    override submit = (connection: pg.Connection): void => {
      connection.query('SELECT 1');
    };
  }
  class LosesRows extends Query {
    handleDataRow(): void {}
  }
  const refused: readonly [string, unknown, RegExp][] = [
    ['no class', undefined, /lacks a method/],
    ['a class that lacks methods', Incomplete, /lacks a method/],
    ['an additional message', SendsMore, /sends other messages/],
    ['the simple protocol', SendsSimply, /sends other messages/],
    ['rows that get lost', LosesRows, /reads answers differently/],
  ];
  for (const [name, given, reason] of refused) {
    const changed = () => driverOf({ Pool: pg.Pool, types: pg.types, Query: given });
    t.throws(changed, { message: reason }, name);
    t.throws(changed, {
      message: /^Version 8\.\d+\.\d+ of the package "pg" .*Install the version/,
    });
  }
});
