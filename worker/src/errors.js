/** What can go wrong, and whose fault it is: the rest of src/foretold/errors.py, beside what pure functions throw. */

import { ForetoldError, Refused } from "./contract/errors.js";

export { BadControl, BadCredential, ForetoldError, Malformed, RecordCorrupt, Refused } from "./contract/errors.js";

/** The settings are not valid. */
export class ConfigError extends ForetoldError {
  static code = "config_invalid";
  static status = 500;
}

/** A web page that was not let in. */
export class ForeignRequest extends Refused {
  static code = "foreign_request";
  static status = 403;
}

/** No such path, model or record. */
export class NotFound extends Refused {
  static code = "not_found";
  static status = 404;
}

/** The body is over its limit. */
export class TooLarge extends Refused {
  static code = "too_large";
  static status = 413;
}

/** Rule C1: only-if-cached, and no usable record. */
export class NotKept extends Refused {
  static code = "not_kept";
  static status = 504;
}

/** A limit of ours is reached; later is better. */
export class Overloaded extends Refused {
  static code = "overloaded";
  static status = 503;
}

/** A store failed, or did not answer in time. */
export class StoreError extends ForetoldError {
  static code = "store_failed";
}

/** A store takes no more writes; `untilMs` says until when, null if it doesn't say. */
export class WritesRefused extends StoreError {
  constructor(message, { untilMs = null } = {}) {
    super(message);
    this.untilMs = untilMs;
  }
}

/** An origin gave no answer. */
export class OriginError extends ForetoldError {
  static code = "origin_failed";
  static status = 502;
}

/** Nothing was sent. */
export class OriginUnreachable extends OriginError {
  static code = "origin_unreachable";
}

/** Sent, and no answer in time. */
export class OriginTimeout extends OriginError {
  static code = "origin_timeout";
  static status = 504;
}

/** The answer broke off. */
export class OriginCut extends OriginError {
  static code = "origin_cut";
}

/** The origin says or shows that it cannot serve now. */
export class OriginUnready extends OriginError {
  static code = "origin_unready";
  static status = 503;
}
