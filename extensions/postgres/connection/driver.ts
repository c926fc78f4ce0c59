import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import type { Connection, CustomTypesConfig, Pool, PoolConfig } from 'pg';
import type { AnsweredQuery, QueryClass, QueryDriver } from './pipelined-query.ts';
import { PipelinedQuery } from './pipelined-query.ts';
import type { Result } from './statement.ts';

/** The parts of the package `pg` that this folder uses. */
export type Driver = QueryDriver & { readonly Pool: new (config: PoolConfig) => Pool };

/** The imported package, before it is checked. */
export type PgPackage = {
  readonly Pool: new (config: PoolConfig) => Pool;
  readonly Query: unknown;
  readonly types: CustomTypesConfig;
};

/** Loaded with the first pool: a process without Postgres does not pay for it. */
export async function loadDriver(): Promise<Driver> {
  const { default: pg } = await import('pg');
  return driverOf(pg);
}

/**
 * `PipelinedQuery` relies on how the driver's class `Query` writes its messages and reads the answers, which is no
 * documented interface. It is tried here without a server, so that a version of the package that works differently
 * is refused at the start, before it can mix up the answers of two statements.
 */
export function driverOf(pg: PgPackage): Driver {
  try {
    if (!isQueryClass(pg.Query)) throw new Error('its class Query lacks a method');
    const driver = { Pool: pg.Pool, Query: pg.Query, types: typesWithNumbers(pg.types) };
    tryOut(driver);
    return driver;
  } catch (error) {
    throw new Error(
      `Version ${installedVersion()} of the package "pg" cannot send statements together: ` +
        `${error instanceof Error ? error.message : String(error)}. ` +
        'Install the version of "pg" that the package.json of tracectl names.',
      { cause: error },
    );
  }
}

const BIGINT = 20;

/**
 * `bigint` comes as a number: sequences, times in milliseconds, sizes and counts are all below 2^53. `numeric` stays
 * text, because a version may be larger.
 */
function typesWithNumbers(types: CustomTypesConfig): CustomTypesConfig {
  return {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === BIGINT && format !== 'binary' ? Number : types.getTypeParser(oid, format),
  };
}

const METHODS: readonly (keyof AnsweredQuery)[] = [
  'submit',
  'handleRowDescription',
  'handleDataRow',
  'handleCommandComplete',
  'handleEmptyQuery',
  'handleError',
  'handleReadyForQuery',
];

function isQueryClass(value: unknown): value is QueryClass {
  if (typeof value !== 'function') return false;
  const methods: Readonly<Record<string, unknown>> = value.prototype;
  return METHODS.every((name) => typeof methods[name] === 'function');
}

const MESSAGES = ['parse', 'bind', 'describe', 'execute'];

/** Sends two statements to a connection that only notes the messages, and answers them. */
function tryOut(driver: QueryDriver): void {
  const sent: string[] = [];
  let results: readonly Result[] = [];
  let failure: Error | undefined;
  const query = new PipelinedQuery(
    [
      ['SELECT $1::bigint AS n', [7]],
      ['SELECT', []],
    ],
    0,
    driver,
    (error, answered = []) => {
      failure ??= error ?? undefined;
      results = answered;
    },
  );
  const connection = notingConnection(sent);
  query.submit(connection);
  expect('it sends other messages', sent, [...MESSAGES, ...MESSAGES, 'sync']);
  query.handleRowDescription({ fields: [{ name: 'n', dataTypeID: BIGINT, format: 'text' }] });
  query.handleDataRow({ fields: ['7'] });
  query.handleCommandComplete({ text: 'SELECT 1' }, connection);
  query.handleCommandComplete({ text: 'SELECT 0' }, connection);
  query.handleReadyForQuery(connection);
  if (failure !== undefined) throw failure;
  const rows = results.map((result) => result.rows);
  expect('it reads answers differently', rows, [[{ n: 7 }], []]);
}

function notingConnection(sent: string[]): Connection {
  const note = (name: string) => () => void sent.push(name);
  const messages = [...MESSAGES, 'sync', 'flush', 'query', 'close'];
  return {
    ...Object.fromEntries(messages.map((name) => [name, note(name)])),
    stream: { cork() {}, uncork() {} },
    parsedStatements: {},
    submittedNamedStatements: {},
  } as object as Connection;
}

function expect(otherwise: string, found: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(found, expected)) throw new Error(otherwise);
}

function installedVersion(): string {
  const about: unknown = createRequire(import.meta.url)('pg/package.json');
  return about instanceof Object && 'version' in about ? String(about.version) : 'unknown';
}
