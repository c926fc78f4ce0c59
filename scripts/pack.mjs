// The package must not carry the bundled runtime: whoever installs it brings a Node. Before packing, the
// runtime's packages are taken out of package.json; afterwards the file is put back.
//
//   node scripts/pack.mjs strip     (prepack; also puts back what an interrupted pack left behind)
//   node scripts/pack.mjs restore   (postpack)
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const manifest = fileURLToPath(new URL('../package.json', import.meta.url));
const kept = `${manifest}.kept`;

const [, , command] = process.argv;
if (command === 'strip') strip();
else if (command === 'restore') restore();
else throw new Error('usage: node scripts/pack.mjs strip|restore');

function strip() {
  restore();
  const text = readFileSync(manifest, 'utf8');
  // Scripts stay: npm looks for postpack in the file as it is by then.
  const { optionalDependencies = {}, ...rest } = JSON.parse(text);
  const others = Object.entries(optionalDependencies).filter(([name]) => !isRuntime(name));
  if (others.length > 0) rest.optionalDependencies = Object.fromEntries(others);
  // The copy stands complete before the original changes, whatever happens in between.
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
