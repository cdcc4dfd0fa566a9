/** What may be done with a query: read, joined, written; and for how long its answer is good. */

const MAY_ALL = Object.freeze({ mayRead: true, mayJoin: true, mayWrite: true, forwarded: "uri-miss", detail: null });
const MAY_WRITE = Object.freeze({ mayRead: false, mayJoin: false, mayWrite: true, forwarded: "request", detail: null });

/** `forwarded` and `detail` are what Cache-Status says if the query goes to its origin. */
export function permit(asked, controls, { routeStores }) {
  if (asked.passes !== null) return passes(asked.passes);
  if (!routeStores) return passes("route-stores-nothing");
  if (controls.noStore) return passes("no-store");
  const allowed = controls.noCache ? MAY_WRITE : MAY_ALL;
  const alias = ignoredAlias(controls);
  return alias === null ? allowed : { ...allowed, detail: alias };
}

export function isPass(permitted) {
  return !permitted.mayRead && !permitted.mayWrite;
}

/** What Cache-Status says of an alias that could not be read (rule C3). */
export function ignoredAlias(controls) {
  return controls.ignoredAliases.length > 0 ? `ignored-${controls.ignoredAliases[0]}` : null;
}

/** The route's, with fresh_s lowered as far as the caller asked. */
export function lifetimes(ofRoute, controls) {
  if (controls.storeTtlS === null || controls.storeTtlS >= ofRoute.fresh_s) return ofRoute;
  return { ...ofRoute, fresh_s: controls.storeTtlS };
}

function passes(detail) {
  return { mayRead: false, mayJoin: false, mayWrite: false, forwarded: "bypass", detail };
}
