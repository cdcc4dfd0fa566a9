/** What a request must be before it is read: size of its head, Origin, coding, credential, rate (in that order). */

import { readControls } from "../contract/aliases.js";
import { splitQuery } from "../contract/controls.js";
import { presented, tenantNamespace } from "../contract/namespace.js";
import { ForeignRequest, Refused, TooLarge } from "../errors.js";
import { fieldsOf, isUnread } from "../fields.js";

export const MAX_HEADERS = 100;
export const MAX_HEAD_BYTES = 32 * 1024;

const TARGET = /^[a-z]+:\/\/[^/?#]*([^?#]*)(?:\?([^#]*))?/i;
// What the platform adds for us, not the caller.
const OF_THE_PLATFORM = new RegExp(
  "^(cf-(connecting-ip|connecting-ipv6|ipcountry|ray|visitor|worker|ew-via|warp-tag-id)|cdn-loop|x-real-ip" +
    "|x-forwarded-(for|proto)|true-client-ip)$",
);

export class Guard {
  #scope;
  #dialects;
  #bodies;
  #origins;
  #rateLimit;
  #secret;

  /** `origins` are web pages that may call, beside our own; `rateLimit` the binding, or null. */
  constructor({ scope, dialects, bodies, origins, rateLimit, secret }) {
    this.#scope = scope;
    this.#dialects = dialects;
    this.#bodies = bodies;
    this.#origins = new Set(origins);
    this.#rateLimit = rateLimit;
    this.#secret = secret;
  }

  /** Method, path and query as they came, and the header fields.  Throws Refused. */
  requestOf(request) {
    // Two credentials that the platform can't read look the same to us: nobody is let in by one of them.
    for (const [name, value] of request.headers) {
      if (isUnread(value)) throw new Refused(`the value of ${name} is not UTF-8`, { param: name, code: "bad_header" });
    }
    const fields = fieldsOf(request.headers).filter(([name]) => !OF_THE_PLATFORM.test(name));
    const bytes = fields.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    if (fields.length > MAX_HEADERS || bytes > MAX_HEAD_BYTES) {
      throw new TooLarge(
        `the head has ${fields.length} fields: at most ${MAX_HEADERS} of ${MAX_HEAD_BYTES} bytes together`,
        { code: "head_too_large", status: 431 },
      );
    }
    // Cut out by hand: a URL object would resolve dot segments before anybody could refuse them.
    const [, path, query = ""] = TARGET.exec(request.url);
    this.#checkOrigin(request);
    this.#checkCoding(request.headers.get("content-encoding"));
    const length = request.headers.get("content-length");
    if (length !== null) this.#bodies.checkAnnounced(length);
    return { method: request.method, path: path || "/", query, headers: fields };
  }

  /** The head of a query: its caller known, its controls and its dialect read.  Throws Refused. */
  async headOf({ method, path, query: whole, headers }) {
    const dialect = this.#dialects.of(method, path);
    const credentials = presented(headers);
    const tenant = await this.#scope.tenant(credentials);
    const [inQuery, query] = splitQuery(whole);
    return {
      method,
      path,
      query,
      headers,
      dialect,
      tenant,
      ownCredential: this.#scope.ownCredential(credentials),
      controls: readControls(headers, inQuery, { chance: Math.random() }),
      ifNoneMatch: headers.find(([name]) => name === "if-none-match")?.[1] ?? null,
    };
  }

  /** In whose words an error is told that came before, or instead of, a dialect. */
  dialectOr(asked, otherwise) {
    try {
      return asked === null ? otherwise : this.#dialects.of(asked.method, asked.path);
    } catch (error) {
      if (error instanceof Refused) return otherwise;
      throw error;
    }
  }

  #checkOrigin(request) {
    const origin = request.headers.get("origin");
    if (origin === null || this.#origins.has(origin) || request.url.startsWith(`${origin}/`)) return;
    throw new ForeignRequest(
      `the web page at '${origin.slice(0, 200)}' may not call: add its origin to server.allowed_origins`,
      { code: "foreign_origin" },
    );
  }

  #checkCoding(coding) {
    if (["", "identity"].includes((coding ?? "").trim().toLowerCase())) return;
    throw new Refused(`the body's coding is '${coding.slice(0, 40)}': send it as it is`, {
      code: "coded_body",
      status: 415,
    });
  }

  /** Also for heads met before.  The platform counts by location, by a name that tells nobody who it is. */
  async checkRate({ tenant }) {
    if (this.#rateLimit === null) return;
    const { success } = await this.#rateLimit.limit({ key: await tenantNamespace(this.#secret, tenant) });
    if (!success) {
      throw new Refused("too many queries of this caller in a short time: wait, then ask again", {
        code: "rate_limited",
        status: 429,
      });
    }
  }
}
