/** What a web page that was let in needs with every answer (Fetch standard, section 3.2). */

const EXPOSED = "cache-status, cf-aig-cache-status, age, etag";

/** For a page whose origin the guard has let in; nothing for other callers. */
export function cors(headers) {
  const origin = headers.get("origin");
  if (origin === null) return [];
  return [["access-control-allow-origin", origin], ["access-control-expose-headers", EXPOSED], ["vary", "origin"]];
}

export function preflight(headers) {
  return [
    ...cors(headers),
    ["access-control-allow-methods", "GET, HEAD, POST, QUERY"],
    ["access-control-allow-headers", headers.get("access-control-request-headers") ?? "content-type, authorization"],
    ["access-control-max-age", "600"],
  ];
}
