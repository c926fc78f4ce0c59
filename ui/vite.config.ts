import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';
import { defineConfig } from 'vite';

const root = import.meta.dirname;
const outDir = join(root, '../dist/ui');

/** The daemon that the development server passes requests to, and its admin token. */
const { TRACECTL_ADMIN_URL = 'http://127.0.0.1:4319', TRACECTL_ADMIN_TOKEN } = process.env;

export default defineConfig({
  root,
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2023',
    // The polyfill would be a script of its own, for browsers that the target leaves out.
    modulePreload: { polyfill: false },
    // The policy of the pages allows no data: URL outside images.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: {
    proxy: {
      // Not `/api`: that is a folder of the sources.
      '/api/v1': {
        target: TRACECTL_ADMIN_URL,
        changeOrigin: true,
        headers:
          TRACECTL_ADMIN_TOKEN === undefined
            ? {}
            : { authorization: `Bearer ${TRACECTL_ADMIN_TOKEN}` },
        // The daemon refuses changes from the origin of the development server.
        configure: (proxy) => proxy.on('proxyReq', (request) => request.removeHeader('origin')),
      },
    },
  },
  plugins: [precompress()],
});

/** Writes NAME.br and NAME.gz beside each file, so that the daemon compresses nothing at run time. */
function precompress(): Plugin {
  return {
    name: 'precompress',
    apply: 'build',
    closeBundle() {
      for (const name of readdirSync(outDir, { recursive: true, encoding: 'utf8' })) {
        const file = join(outDir, name);
        if (!statSync(file).isFile()) continue;
        const bytes = readFileSync(file);
        const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
        writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params }));
        writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}
