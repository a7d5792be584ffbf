// Packages are installed outside the source tree, where a plain `import` does not find them:
// PATCHBOARD_E2E_MODULES names the folder that holds `node_modules`.

import { createRequire } from 'node:module';
import path from 'node:path';

/** The package, or an error that says where it was looked for. */
export function load(name) {
  const folder = process.env.PATCHBOARD_E2E_MODULES;
  if (!folder) {
    throw new Error('PATCHBOARD_E2E_MODULES does not name the folder with the packages');
  }
  return createRequire(path.resolve(folder, 'package.json'))(name);
}
