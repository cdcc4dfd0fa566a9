/** From what is asked, by whom and on which route, to the key of its answer (rules K1 to K3, N1). */

import { implicitTags, callerTag } from "./contract/generations.js";
import { keyOf } from "./contract/key.js";
import { keyedHeaders } from "./contract/query.js";
import { mayAnswer304 } from "./contract/status.js";
import { ignoredAlias } from "./policy.js";

/** The name of a query that has an input; `controls` are those of its head and body together, `revision` rule K9's. */
export async function named(head, asked, { controls, route, revision, scope }) {
  const namespaces = await scope.namespaces(head.tenant, {
    children: controls.children,
    ignored: controls.ignored,
    sharedRoute: route.shared ? route.name : null,
  });
  const query = {
    namespace: namespaces.at(-1),
    operation: asked.operation,
    model: asked.model,
    revision,
    sample: controls.sample ?? 0,
    query: asked.query,
    headers: keyedHeaders(asked.operation, head.headers, { also: route.keyedHeaders }),
    form: asked.form,
    input: asked.input,
  };
  const tags = implicitTags(namespaces, { model: query.model, revision: query.revision });
  const isSafe = mayAnswer304(asked.method);
  const detail = ignoredAlias(controls);
  return {
    key: await keyOf(query),
    query,
    namespaces,
    route,
    controls,
    tags: [...tags, ...controls.tags.map((tag) => callerTag(namespaces[0], tag))],
    isSafe,
    streamed: asked.streamed,
    usage: asked.usage,
    ifNoneMatch: head.ifNoneMatch,
    // What a flight behind a stale answer needs.
    refresh: { head, asked },
    detail,
    place: `${asked.streamed} ${asked.usage} ${isSafe} ${detail ?? ""}`,
  };
}
