/** An answer that is all here. */
export class WholeAnswer {
  isFallback = false;
  #body;

  constructor(status, headers, body, { isProven = true, whyNot = null } = {}) {
    this.status = status;
    this.headers = headers;
    this.length = body.length;
    this.isProven = isProven;
    this.whyNot = whyNot;
    this.#body = body;
  }

  async *chunks() {
    if (this.#body.length > 0) yield this.#body;
  }

  close() {}
}
