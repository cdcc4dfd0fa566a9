/** From a caller's credentials to the namespace of its answers (rule N1). */

import { childNamespace, ignoringLabel, tenantNamespace, tenantOf } from "./contract/namespace.js";
import { Halves } from "./halves.js";

const KNOWN_BYTES = 1000;

export class Scope {
  #secret;
  #tenants;
  #known = new Halves(2 * 2 ** 20);

  /** `tenants`: a Map from the hex SHA-256 of each API key to its tenant; null where no API keys are set. */
  constructor(secret, { tenants }) {
    this.#secret = secret;
    this.#tenants = tenants;
  }

  get heldBytes() {
    return this.#known.cost;
  }

  get limitBytes() {
    return this.#known.limit;
  }

  get hasApiKeys() {
    return this.#tenants !== null;
  }

  /** Who is asking; throws BadCredential where API keys are set and none of them was presented. */
  tenant(credentials) {
    return tenantOf(credentials, { tenants: this.#tenants });
  }

  /** The header with the caller's own credential for an upstream; never one that opens this edge. */
  ownCredential(credentials) {
    if (this.hasApiKeys && credentials.gateway === "") return null;
    return credentials.otherHeader || null;
  }

  /**
   * Whose answers may serve an authenticated tenant on a route, widest first; answers live in the last.
   *
   * `children` and `ignored` are those of its controls: a caller's labels only narrow.
   */
  async namespaces(tenant, { children, ignored, sharedRoute }) {
    const asked = JSON.stringify([tenant, children, ignored, sharedRoute]);
    let chain = this.#known.get(asked);
    if (chain === undefined) {
      chain = await this.#derived(sharedRoute === null ? tenant : `shared:${sharedRoute}`, children, ignored);
      this.#known.put(asked, chain, { cost: KNOWN_BYTES + asked.length });
    }
    return chain;
  }

  async #derived(whose, children, ignored) {
    const chain = [await tenantNamespace(this.#secret, whose)];
    const [apiKeysTenant, beside] = whose.split("\n", 2);
    if (beside !== undefined && whose.startsWith("tenant:")) {
      // A purge of the API key's tenant reaches what was asked with a credential beside it.
      chain.unshift(await tenantNamespace(this.#secret, apiKeysTenant));
    }
    for (const label of ignored.length > 0 ? [...children, ignoringLabel(ignored)] : children) {
      chain.push(await childNamespace(this.#secret, chain.at(-1), label));
    }
    return chain;
  }
}
