/** Purges: one record is deleted, everything wider gets a new generation (rule G1). */

import { EVERYTHING, callerTag, isCallerTag } from "./contract/generations.js";
import { isObject, parsed } from "./contract/canonical.js";
import { tenantNamespace } from "./contract/namespace.js";
import { Refused } from "./errors.js";

export const KINDS = ["key", "tag", "model", "revision", "namespace", "tenant", "everything"];

const HEX = /^[0-9a-f]{64}$/;
const TENANT = /^(tenant|credential|shared):./s;
const WANTED = {
  namespace: "its 64 hex digits",
  tag: "1 to 64 of a-z 0-9 _ . : -",
  model: "a model's name",
  revision: "a revision, as its record tells it",
};

export class Purging {
  #node;
  #secret;

  constructor(node, secret) {
    this.#node = node;
    this.#secret = secret;
  }

  /**
   * Takes effect here with the next request, and elsewhere within 90 s.  `tenant` names whose tag it is.
   *
   * Throws Refused for an unknown kind or a value that can't be one, StoreError if it could not be made to last.
   */
  async purge(kind, value, { tenant }) {
    const tag = await this.#tag(kind, value, tenant);
    await this.#node.generations.renew([tag]);
    return { purged: kind, tag };
  }

  async #tag(kind, value, tenant) {
    switch (kind) {
      case "everything":
        return EVERYTHING;
      case "namespace":
        if (HEX.test(value)) return `namespace:${value}`;
        break;
      case "tenant":
        return `namespace:${await this.#namespace(value)}`;
      case "tag":
        if (isCallerTag(value)) return callerTag(await this.#namespace(tenant ?? "local:"), value);
        break;
      case "model":
      case "revision":
        if (value !== "") return `${kind}:${value}`;
        break;
      case "key":
        throw new Refused("one record is purged at the node, or by its tag: here a key doesn't say whose it is", {
          param: "key",
          code: "bad_purge",
        });
    }
    throw new Refused(`${kind} is '${value.slice(0, 80)}': give ${WANTED[kind]}`, { param: kind, code: "bad_purge" });
  }

  /** Throws Refused for what rule N1 doesn't write. */
  #namespace(tenant) {
    if (tenant !== "local:" && !TENANT.test(tenant)) {
      throw new Refused(
        `tenant is '${tenant.slice(0, 80)}': write tenant:NAME, credential:TEXT, shared:ROUTE or local:`,
        { param: "tenant", code: "bad_purge" },
      );
    }
    return tenantNamespace(this.#secret, tenant);
  }
}

/** What a purge names, its value, and whose tag it is if it says so.  Throws Refused, naming the member. */
export function purgeAsked(text) {
  const [asked, hasRepeat] = membersOf(text);
  const known = KINDS.join(", ");
  if (hasRepeat) throw new Refused("a member stands in the purge twice", { code: "bad_purge" });
  for (const [name, value] of Object.entries(asked)) {
    const param = name.slice(0, 40);
    if (!KINDS.includes(name) && name !== "of_tenant") {
      throw new Refused(`nothing is purged by '${param}': known are ${known}`, { param, code: "bad_purge" });
    }
    if (name === "everything" ? value !== true : typeof value !== "string") {
      const wanted = name === "everything" ? 'by {"everything": true} alone' : "by a text";
      throw new Refused(`${name} is purged ${wanted}`, { param, code: "bad_purge" });
    }
  }
  const { of_tenant: tenant = null, ...kinds } = asked;
  const [[kind, value] = [], ...more] = Object.entries(kinds);
  if (kind === undefined || more.length > 0) throw new Refused(`name one of ${known}`, { code: "bad_purge" });
  if (tenant !== null && kind !== "tag") {
    throw new Refused(`of_tenant says whose tag it is: ${kind} takes none`, { param: "of_tenant", code: "bad_purge" });
  }
  return { kind, value: value === true ? "" : value, tenant };
}

function membersOf(text) {
  try {
    const [value, hasRepeat] = parsed(text);
    if (isObject(value)) return [value, hasRepeat];
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  throw new Refused('a purge is a JSON object such as {"model": "…"}', { code: "bad_purge" });
}
