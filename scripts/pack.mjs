// Removes the bundled runtime from the package, because a user of the package has Node. Before packing, it removes the
// runtime's packages from package.json; after packing, it restores the file.
//
//   node scripts/pack.mjs strip     (prepack; also restores the file after an interrupted pack)
//   node scripts/pack.mjs restore   (postpack)
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const manifest = fileURLToPath(new URL('../package.json', import.meta.url));
const pages = fileURLToPath(new URL('../dist/ui/index.html', import.meta.url));
const kept = `${manifest}.kept`;

const [, , command] = process.argv;
if (command === 'strip') strip();
else if (command === 'restore') restore();
else throw new Error('usage: node scripts/pack.mjs strip|restore');

function strip() {
  restore();
  if (!existsSync(pages)) throw new Error('dist/ui is missing: the package would have no web UI');
  const text = readFileSync(manifest, 'utf8');
  // Scripts remain: npm reads postpack from the changed file.
  const { optionalDependencies = {}, ...rest } = JSON.parse(text);
  const others = Object.entries(optionalDependencies).filter(([name]) => !isRuntime(name));
  if (others.length > 0) rest.optionalDependencies = Object.fromEntries(others);
  // The copy is complete before the original changes.
  writeFileSync(`${kept}.new`, text);
  renameSync(`${kept}.new`, kept);
  writeFileSync(`${manifest}.new`, `${JSON.stringify(rest, null, 2)}\n`);
  renameSync(`${manifest}.new`, manifest);
}

function restore() {
  rmSync(`${kept}.new`, { force: true });
  rmSync(`${manifest}.new`, { force: true });
  if (existsSync(kept)) renameSync(kept, manifest);
}

function isRuntime(name) {
  return /^node-(bin-)?(darwin|linux|win)-(arm64|x64)$/.test(name);
}
