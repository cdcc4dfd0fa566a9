/** The paths under `/-/`: health is open, all others ask for the admin token. */

import { utf8 } from "../contract/bytes.js";
import { problem } from "../dialects/problem.js";
import { BadCredential, ForetoldError, NotFound, Refused } from "../errors.js";
import { stats } from "../observe/stats.js";
import { purgeAsked } from "../purging.js";
import { VERSION } from "../version.js";
import { selftest } from "./selftest.js";

const PURGE_BYTES = 8 * 1024;

export class Admin {
  #node;
  #purging;
  #bodies;
  #token;
  #bindings;
  #doors;

  /** `token` is null where none is set: then only health answers.  `bindings` are what the self-test tries. */
  constructor({ node, purging, bodies, token, bindings }) {
    this.#node = node;
    this.#purging = purging;
    this.#bodies = bodies;
    this.#token = token;
    this.#bindings = bindings;
    this.#doors = [
      { method: "GET", path: "/-/health", isOpen: true, answer: () => this.#health() },
      { method: "GET", path: "/-/stats", isOpen: false, answer: () => stats(this.#node, this.#bodies) },
      { method: "POST", path: "/-/selftest", isOpen: false, answer: (request, later) => this.#selftest(request, later) },
      { method: "POST", path: "/-/cache/purge", isOpen: false, answer: (request) => this.#purge(request) },
    ];
  }

  /** Status, headers and body; what goes wrong is told as a problem. */
  async answer(asked, request, { later }) {
    try {
      const door = this.#door(asked);
      if (!door.isOpen) await this.#checkToken(asked);
      const told = await door.answer(request, later);
      return [told.status_code ?? 200, headers("application/json"), utf8(`${JSON.stringify(told, null, 2)}\n`)];
    } catch (error) {
      if (!(error instanceof ForetoldError)) throw error;
      const [kind, body] = problem(error);
      return [error.status, headers(kind), body];
    }
  }

  #door({ method: given, path }) {
    const door = this.#doors.find((known) => known.path === path);
    if (door === undefined) {
      const known = this.#doors.map((each) => each.path).join(", ");
      throw new NotFound(`there is no ${path.slice(0, 100)}: known are ${known}`, { code: "unknown_path" });
    }
    if (door.method === (given === "HEAD" ? "GET" : given)) return door;
    throw new Refused(`${path} is asked by ${door.method}`, { code: "method_not_allowed", status: 405 });
  }

  async #checkToken({ headers: fields }) {
    const given = fields.find(([name]) => name === "authorization")?.[1] ?? "";
    // Of digests, so that neither the time nor the length tells how much was right.
    const one = await digestOf(given.replace(/^Bearer /, "").trim());
    const other = await digestOf(this.#token ?? "");
    if (this.#token === null || !crypto.subtle.timingSafeEqual(one, other)) {
      throw new BadCredential("this path needs the admin token, as `Authorization: Bearer …`");
    }
  }

  /** Whether writes reach KV is told here, for that is how a free plan's day ends. */
  #health() {
    const refusing = this.#node.tiers.all.filter((tier) => tier.readOnlyUntilMs > 0);
    const until = refusing.map((tier) => [tier.name, new Date(tier.readOnlyUntilMs).toISOString()]);
    return { status: "ok", version: VERSION, read_only_until: Object.fromEntries(until) };
  }

  #selftest(request, later) {
    const model = new URL(request.url).searchParams.get("ai");
    return selftest(this.#bindings, { model, node: this.#node, later });
  }

  async #purge(request) {
    const length = Number(request.headers.get("content-length") ?? 0);
    if (length > PURGE_BYTES) throw new Refused("a purge is a short JSON object", { code: "bad_purge" });
    const { kind, value, tenant } = purgeAsked(await request.text());
    return this.#purging.purge(kind, value, { tenant });
  }
}

function digestOf(text) {
  return crypto.subtle.digest("SHA-256", utf8(text));
}

function headers(kind) {
  return [["content-type", kind], ["cache-control", "no-store"]];
}
