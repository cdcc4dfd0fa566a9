/** What can go wrong in a pure function, by the names, codes and statuses of src/foretold/errors.py. */

export class ForetoldError extends Error {
  static code = "internal";
  static status = 500;

  /** `param` names the offending field; `code` and `status` may be narrower than the class's. */
  constructor(message, { param = null, code, status } = {}) {
    super(message);
    this.param = param;
    this.code = code ?? new.target.code;
    this.status = status ?? new.target.status;
  }
}

/** The caller's fault. */
export class Refused extends ForetoldError {
  static code = "refused";
  static status = 400;
}

/** The body is not what its dialect promises. */
export class Malformed extends Refused {
  static code = "malformed_body";
}

/** A caching control that cannot be read. */
export class BadControl extends Refused {
  static code = "bad_control";
}

/** None, or a wrong one. */
export class BadCredential extends Refused {
  static code = "bad_credential";
  static status = 401;
}

/** Bytes that are not a whole, sealed record. */
export class RecordCorrupt extends ForetoldError {
  static code = "record_corrupt";
}

/** A JSON text that is sound but has no key: number, surrogate, repeat or size. */
export class Unkeyable extends Error {
  constructor(why) {
    super(why);
    this.why = why;
  }
}
