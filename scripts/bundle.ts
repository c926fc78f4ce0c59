/**
 * Bundles the daemon into `dist`: `npm run build`. A start then reads some fifty files instead of a thousand.
 *
 *   dist/src/main.js, dist/ROOM/…-thread.js    the entries keep the paths of their sources
 *   dist/chunks/*.js                           everything else, by what loads it; the text of the code without comments
 *
 * Libraries that most daemons load at their start become part of the chunks, with their licences in
 * `dist/licenses.txt`; all others stay packages.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build, minifySync, type Plugin, type Rolldown } from 'vite';

const ROOT = join(import.meta.dirname, '..');
const SOURCES = '{src,connectors,exporters,extensions,processors,receivers}/**/*.ts';
const BUNDLED = [
  ...['commander', 'pino', 'undici', 'yaml', 'zod'],
  // Of pino:
  ...['@pinojs/redact', 'atomic-sleep', 'on-exit-leak-free', 'pino-std-serializers'],
  ...['quick-format-unescaped', 'real-require', 'safe-stable-stringify', 'sonic-boom'],
  'thread-stream',
];

export async function bundle(outDir: string): Promise<void> {
  await build({
    configFile: false,
    logLevel: 'warn',
    root: ROOT,
    publicDir: false,
    ssr: { noExternal: BUNDLED, target: 'node' },
    build: {
      ssr: true,
      outDir,
      emptyOutDir: false,
      target: 'esnext',
      minify: false,
      reportCompressedSize: false,
      rolldownOptions: {
        input: Object.fromEntries(entries().map((file) => [withoutType(file), join(ROOT, file)])),
        output: { entryFileNames: '[name].js', chunkFileNames: 'chunks/[name].js' },
      },
    },
    plugins: [placesOfModules(), lateHttp2(), lean()],
  });
  writeFileSync(join(outDir, 'licenses.txt'), licenses());
}

/** The modules that a process or a thread starts with, or that are loaded by their URL. */
function entries(): string[] {
  const found = globSync(SOURCES, { cwd: ROOT }).flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const names = text.matchAll(/threadFile\(\s*import\.meta\.url,\s*'([^']+)'/g);
    return [...names].map(([, name = '']) => `${join(dirname(file), name)}.ts`);
  });
  return [...new Set(['src/main.ts', ...found])].sort();
}

/** `import.meta.url` of a source stays the URL that the module has without bundling. */
function placesOfModules(): Plugin {
  return {
    name: 'places-of-modules',
    transform(code, id) {
      if (id.includes('/node_modules/') || !code.includes('import.meta.url')) return null;
      const place = JSON.stringify(`${withoutType(relative(ROOT, id))}.js`);
      return { code: code.replaceAll('import.meta.url', `__urlOf(${place})`), map: null };
    },
    renderChunk(code, { fileName }) {
      const here = dirname(fileName);
      const placed = code.replace(/__urlOf\("([^"]+)"\)/g, (_, place: string) => {
        const path = relative(here, place);
        return `new URL(${JSON.stringify(path.startsWith('.') ? path : `./${path}`)}, import.meta.url).href`;
      });
      return placed === code ? null : { code: placed, map: null };
    },
  };
}

/** undici's client over HTTP/1.1 loads the one over HTTP/2, and so TLS, before a server has chosen it. */
function lateHttp2(): Plugin {
  const now = "const connectH2 = require('./client-h2.js')";
  const late = "const connectH2 = (...given) => require('./client-h2.js')(...given)";
  return {
    name: 'late-http2',
    transform(code, id) {
      if (!id.endsWith('undici/lib/dispatcher/client.js')) return null;
      if (!code.includes(now)) throw new Error(`${id} does not load client-h2.js as expected`);
      return { code: code.replace(now, late), map: null };
    },
  };
}

/**
 * Removes what costs memory and time at the start. V8 keeps the text of the code, with two bytes a character if
 * one is not Latin-1. And an import of a built-in module reads all its exports, which loads an HTTP client
 * (`node:http`), all root certificates (`node:tls`) or Web Crypto (`node:crypto`): 15 MB and 60 ms together.
 */
function lean(): Plugin {
  return {
    name: 'lean',
    // Vite prints the code once more after its last renderChunk.
    generateBundle(_, files) {
      for (const file of Object.values(files)) {
        if (file.type === 'chunk') file.code = leanCode(file);
      }
    },
  };
}

function leanCode({ code, fileName, moduleIds }: Rolldown.OutputChunk): string {
  const isLibrary = moduleIds.every((id) => id.includes('/node_modules/'));
  const printed = minifySync(fileName, code, {
    compress: false,
    mangle: isLibrary,
    codegen: { removeWhitespace: isLibrary },
  });
  if (printed.errors.length > 0) throw new Error(`${fileName}: ${printed.errors[0]?.message}`);
  return printed.code.replace(BUILTIN_IMPORT, taken).replace(/[^\0-\xff]/g, escaped);
}

const BUILTIN_IMPORT =
  /\bimport\s*([\w$]+)?\s*,?\s*(\{[^}]*\}|\*\s*as\s+[\w$]+)?\s*from\s*["']([\w:/]+)["'];?/g;

function taken(
  statement: string,
  whole: string | undefined,
  named: string | undefined,
  module: string,
): string {
  if (!isBuiltin(module)) return statement;
  // A library imports `process` itself.
  const value = `globalThis.process.getBuiltinModule(${JSON.stringify(module)})`;
  const all = named?.startsWith('*') ? named.replace(/^\*\s*as\s+/, '') : undefined;
  const names = [whole, all, all === undefined ? named?.replace(/\s+as\s+/g, ': ') : undefined];
  return names
    .filter((name) => name !== undefined)
    .map((name) => `const ${name} = ${value};`)
    .join('');
}

/** Texts, regular expressions and names have such characters, and all of them take the escape. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function licenses(): string {
  return BUNDLED.map((name) => {
    const directory = join(ROOT, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
    const [file] = globSync('{LICENSE,LICENCE,license}*', { cwd: directory });
    const text = file === undefined ? '' : readFileSync(join(directory, file), 'utf8').trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  }).join(`\n${'-'.repeat(80)}\n\n`);
}

function withoutType(file: string): string {
  return file.replace(/\.ts$/, '');
}

if (import.meta.main) await bundle(join(ROOT, 'dist'));
