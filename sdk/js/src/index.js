// @ts-check
// Puts an app on the hub; see README.md and index.d.ts.

import { Connection } from './connection.js';
import { settle } from './options.js';

export { HubError, RegistrationError } from './errors.js';

/**
 * @param {import('../index.js').Options} options
 * @returns {import('../index.js').Hub}
 */
export function connect(options) {
  const connection = new Connection(settle(options));
  return Object.freeze({
    get state() {
      return connection.state;
    },
    ready: connection.ready,
    close: () => connection.close(),
  });
}
