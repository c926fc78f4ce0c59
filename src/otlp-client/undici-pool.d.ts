/** A part of undici that has no types of its own. */
declare module 'undici/lib/dispatcher/pool.js' {
  // biome-ignore lint/style/noDefaultExport: the module exports it so
  export { Pool as default } from 'undici';
}

/** The same. */
declare module 'undici/lib/core/connect.js' {
  // biome-ignore lint/style/noDefaultExport: the module exports it so
  export { buildConnector as default } from 'undici';
}
