// @ts-check

/** What went wrong on the way between the app and the hub; `code` tells programs, the message tells people. */
export class HubError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ cause?: unknown }} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = new.target.name;
    /** @readonly */
    this.code = code;
  }
}

/** The hub did not let the app in; the code is the hub's. */
export class RegistrationError extends HubError {}
