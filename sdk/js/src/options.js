// @ts-check
// What an app may ask for, checked before anything is sent: a mistake shows where it was made.

/** @typedef {import('../index.js').Options} Options */
/** @typedef {Required<Omit<Options, 'version' | 'capabilities' | 'token'>> & { registration: object }} Settings */

const USUAL_URL = 'ws://127.0.0.1:9473';
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const LONGEST_DESCRIPTION = 1024;
const LIMITS = Object.freeze({
  maxAttempts: Infinity,
  registrationTimeout: 10_000,
  maxRunning: 64,
  maxQueued: 256,
  maxRemembered: 1000,
});

/**
 * @param {Options} options
 * @returns {Settings}
 */
export function settle(options) {
  const { name, description, version, capabilities, token, url = USUAL_URL, onMessage } = options;
  demand(typeof name === 'string' && NAME.test(name), 'name', 'a letter, then up to 63 letters, digits, `-` or `_`');
  const said = typeof description === 'string' && description.trim() !== '';
  demand(said && description.length <= LONGEST_DESCRIPTION, 'description', '1 to 1024 characters of plain words');
  demand(version === undefined || typeof version === 'string', 'version', 'a string');
  const strings = Array.isArray(capabilities) && capabilities.every((one) => typeof one === 'string');
  demand(capabilities === undefined || strings, 'capabilities', 'a list of strings');
  demand(token === undefined || (typeof token === 'string' && token !== ''), 'token', 'a string that is not empty');
  demand(typeof url === 'string' && /^wss?:\/\//i.test(url), 'url', 'an address like `ws://127.0.0.1:9473`');
  const WebSocket = options.WebSocket ?? globalThis.WebSocket;
  const hint = 'a WebSocket class; there is no global one here, so pass that of the package `ws`';
  demand(typeof WebSocket === 'function', 'WebSocket', hint);
  demand(typeof onMessage === 'function', 'onMessage', 'a function');
  for (const callback of /** @type {const} */ (['onState', 'onError'])) {
    const given = options[callback];
    demand(given === undefined || typeof given === 'function', callback, 'a function');
  }
  return {
    name,
    description,
    url,
    WebSocket,
    onMessage: (message) => options.onMessage(message),
    onState: (state) => options.onState?.(state),
    onError: (error) => (options.onError ? options.onError(error) : console.error(error)),
    // Looked up at each call, for test frameworks exchange the global functions.
    timers: options.timers ?? {
      setTimeout: (callback, milliseconds) => setTimeout(callback, milliseconds),
      clearTimeout: (timer) => clearTimeout(timer),
    },
    maxAttempts: limit(options, 'maxAttempts', 0),
    registrationTimeout: limit(options, 'registrationTimeout', 1),
    maxRunning: limit(options, 'maxRunning', 1),
    maxQueued: limit(options, 'maxQueued', 1),
    maxRemembered: limit(options, 'maxRemembered', 1),
    // What is undefined is left out when it becomes JSON.
    registration: { name, description, version, capabilities, token },
  };
}

/**
 * @param {Options} options
 * @param {keyof typeof LIMITS} name
 * @param {number} least
 */
function limit(options, name, least) {
  const value = options[name] ?? LIMITS[name];
  demand(typeof value === 'number' && value >= least, name, `a number, at least ${least}`);
  return value;
}

/**
 * @param {boolean} holds
 * @param {string} option
 * @param {string} what
 * @returns {asserts holds}
 */
function demand(holds, option, what) {
  if (!holds) throw new TypeError(`\`${option}\` must be ${what}`);
}
