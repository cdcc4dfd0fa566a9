/** What the operations of vectors about keys do here: from a vector's `in` to its `out`, errors thrown as they come. */

import { bodyControls, readControls } from "../src/contract/aliases.js";
import { digest, utf8 } from "../src/contract/bytes.js";
import { canonical, isObject, read } from "../src/contract/canonical.js";
import { splitQuery, stricter } from "../src/contract/controls.js";
import {
  OPENAI_SHAPED, bytesInput, embeddingInputs, ignoredNames, jsonInput, keyed, multipartInput, mustPass, tensorInput,
} from "../src/contract/inputs.js";
import { keyOf, recordName } from "../src/contract/key.js";
import {
  apiKeyHash, childNamespace, ignoringLabel, presented, tenantNamespace, tenantOf,
} from "../src/contract/namespace.js";
import { keyedHeaders } from "../src/contract/query.js";
import { SECRET, bytesOf } from "./values.js";

export function bodyOf({ body }) {
  return read(bytesOf(body));
}

function canonicalText({ text }) {
  return utf8(canonical(read(bytesOf(text))));
}

function multipartDigest({ parts }) {
  return multipartInput(parts.map(([name, kind, content]) => [name, kind, bytesOf(content)]));
}

function tensorDigest({ inputs, outputs, parameters = {} }) {
  const tensors = inputs.map((tensor) => ({ ...tensor, content: bytesOf(tensor.content) }));
  return tensorInput(tensors, outputs, parameters);
}

/** `tenants` maps API keys to tenants' names, or is null or absent where none are set. */
async function tenantOfRequest({ headers = [], tenants = null, shared_route: sharedRoute = null }) {
  const hashed = Object.entries(tenants ?? {}).map(async ([key, name]) => [await apiKeyHash(key), name]);
  const byHash = tenants === null ? null : new Map(await Promise.all(hashed));
  return tenantOf(presented(headers), { tenants: byHash, sharedRoute });
}

function toldCredentials({ headers }) {
  const { gateway, other, otherHeader, text } = presented(headers);
  return { gateway, other, other_header: otherHeader, text };
}

/** The keys of a request, one for each of its queries, found the way that rules K1 to C3 lead. */
async function keysOf(request) {
  const { operation, form = "json", headers = [] } = request;
  const [inQuery, query] = splitQuery(request.query ?? "");
  const value = form === "json" ? bodyOf(request) : null;
  let said = readControls(headers, inQuery);
  if (OPENAI_SHAPED.has(operation) && isObject(value)) said = stricter(said, bodyControls(value.cache));
  const parts = {
    namespace: await narrowed(await tenantNamespace(SECRET, await tenantOfRequest(request)), said),
    operation,
    model: request.model ?? (isObject(value) ? (value.model ?? "") : ""),
    revision: request.revision ?? "",
    form,
    sample: request.sample ?? said.sample ?? 0,
    query,
    headers: keyedHeaders(operation, headers),
  };
  const digests = await Promise.all(digestsOf(request, { form, value, said }));
  return Promise.all(digests.map((input) => keyOf({ ...parts, input })));
}

async function narrowed(own, { children, ignored }) {
  let namespace = own;
  const labels = ignored.length > 0 ? [...children, ignoringLabel(ignored)] : children;
  for (const label of labels) namespace = await childNamespace(SECRET, namespace, label);
  return namespace;
}

function digestsOf(request, { form, value, said: { ignored } }) {
  const { operation } = request;
  switch (form) {
    case "json": {
      const queries = operation === "embedding" ? embeddingInputs(value) : [value];
      return queries.map((one) => jsonInput(operation, one, { ignored }));
    }
    case "multipart":
      return [multipartDigest(request)];
    case "tensor":
      return [tensorDigest(request)];
    default:
      return [bytesInput(bytesOf(request.body))];
  }
}

async function haveSameKey({ a, b }) {
  const [ofA, ofB] = [await keysOf(a), await keysOf(b)];
  return ofA.length === ofB.length && ofA.every((key, at) => key === ofB[at]);
}

export const OPERATIONS = {
  canonical: canonicalText,
  canonical_sha256: (given) => digest(canonicalText(given)),
  key_of: ({ query }) => keyOf(query),
  record_name: ({ namespace, key }) => recordName(namespace, key),
  keyed_headers: ({ operation, headers, also }) => keyedHeaders(operation, headers, { also }),
  keyed: (given) => keyed(given.operation, bodyOf(given), { ignored: given.ignored }),
  json_input: (given) => jsonInput(given.operation, bodyOf(given), { ignored: given.ignored }),
  ignored_names: ({ names }) => ignoredNames(names),
  bytes_input: ({ body }) => bytesInput(bytesOf(body)),
  multipart_input: multipartDigest,
  embedding_inputs: (given) => embeddingInputs(bodyOf(given)),
  tensor_input: tensorDigest,
  must_pass: (given) => mustPass(given.operation, bodyOf(given)),
  same_key: haveSameKey,
  presented: toldCredentials,
  tenant_of: tenantOfRequest,
  tenant_namespace: ({ tenant }) => tenantNamespace(SECRET, tenant),
  child_namespace: ({ parent, label }) => childNamespace(SECRET, parent, label),
  ignoring_label: ({ names }) => ignoringLabel(names),
  api_key_hash: ({ api_key: apiKey }) => apiKeyHash(apiKey),
};
