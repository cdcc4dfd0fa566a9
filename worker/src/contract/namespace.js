/** Whose answers these are (rules N1 and N2). */

import { digest, hex, hmac, utf8 } from "./bytes.js";
import { BadCredential, Refused } from "./errors.js";
import { trimmed } from "./query.js";

export const CREDENTIAL_HEADERS = ["authorization", "x-api-key", "api-key"];
export const GATEWAY_HEADER = "cf-aig-authorization";

/** What a caller presented: at most one API key for a gateway, at most one credential beside it. */
export class Credentials {
  constructor({ gateway = "", other = "", otherHeader = "" } = {}) {
    this.gateway = gateway;
    this.other = other;
    this.otherHeader = otherHeader;
  }

  /** Both, a line feed between, or the one there is. */
  get text() {
    return [this.gateway, this.other].filter((part) => part !== "").join("\n");
  }
}

/**
 * The credentials among headers; names in any case, `Bearer` in any case.
 *
 * One credential in several headers counts as the first of CREDENTIAL_HEADERS.  Throws Refused(400) if two different
 * ones are given.
 */
export function presented(headers) {
  const given = Array.from(headers, ([name, value]) => [name.toLowerCase(), tokenOf(value)]);
  const gateway = new Map();
  const other = new Map();
  for (const [name, token] of given) if (name === GATEWAY_HEADER && token !== "") gateway.set(token, name);
  for (const header of CREDENTIAL_HEADERS) {
    for (const [name, token] of given) {
      if (name === header && token !== "" && !other.has(token)) other.set(token, name);
    }
  }
  if (gateway.size > 1 || other.size > 1) {
    const names = [...new Set([...gateway.values(), ...other.values()])].sort().join(", ");
    throw new Refused(`two different credentials in ${names}: send one`, { code: "two_credentials", status: 400 });
  }
  const [gatewayToken = ""] = gateway.keys();
  const [[otherToken, otherHeader] = ["", ""]] = other;
  return new Credentials({ gateway: gatewayToken, other: otherToken, otherHeader });
}

/** Hex HMAC of a tenant: `tenant:NAME`, `credential:TEXT`, `local:` or `shared:ROUTE`. */
export async function tenantNamespace(secret, tenant) {
  return hex(await hmac(secret, utf8(`namespace\n${tenant}`)));
}

/** A narrower namespace under a parent's; no caller's label holds a line feed (isLabel in controls.js). */
export async function childNamespace(secret, parent, label) {
  return hex(await hmac(secret, utf8(`${parent}\n${label}`)));
}

/**
 * The label of the child namespace in which these body members don't count (rule C3), each once, sorted.
 *
 * The line feed keeps it apart from every label a caller can give.
 */
export function ignoringLabel(names) {
  return `ignore\n${[...new Set(names)].sort().join("\n")}`;
}

/**
 * The tenant of a caller.
 *
 * `tenants` is a Map from the hex SHA-256 of each API key to its tenant's name; null if no API keys are set.
 * Throws BadCredential if API keys are set and none of them was presented.
 */
export async function tenantOf(credentials, { tenants, sharedRoute = null }) {
  const name = tenants === null ? null : tenants.get(await apiKeyHash(credentials.gateway || credentials.other));
  if (name === undefined) {
    throw new BadCredential("no valid API key was presented: send one as `Authorization: Bearer …`");
  }
  if (sharedRoute !== null) return `shared:${sharedRoute}`;
  if (name !== null) {
    const beside = credentials.gateway === "" ? "" : credentials.other;
    return beside === "" ? `tenant:${name}` : `tenant:${name}\n${beside}`;
  }
  return credentials.text === "" ? "local:" : `credential:${credentials.text}`;
}

export function apiKeyHash(apiKey) {
  return digest(utf8(apiKey));
}

function tokenOf(value) {
  const whole = trimmed(value);
  const space = whole.indexOf(" ");
  const scheme = space < 0 ? whole : whole.slice(0, space);
  if (scheme.toLowerCase() !== "bearer") return whole;
  return space < 0 ? "" : trimmed(whole.slice(space + 1));
}
