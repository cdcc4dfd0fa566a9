/** Text, hex and digests of bytes: what the node's language has built in. */

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const tolerant = new TextDecoder();

export function utf8(text) {
  return encoder.encode(text);
}

/** The text of UTF-8 bytes, a byte order mark included; throws TypeError if they are none. */
export function textOf(bytes) {
  return decoder.decode(bytes);
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function joined(runs) {
  const all = new Uint8Array(runs.reduce((length, run) => length + run.length, 0));
  let at = 0;
  for (const run of runs) {
    all.set(run, at);
    at += run.length;
  }
  return all;
}

/** Whether bytes hold a text of ASCII characters, be they UTF-8 or not. */
export function holds(bytes, ascii) {
  return tolerant.decode(bytes).includes(ascii);
}

export async function sha256(content) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", content));
}

/** Hex SHA-256. */
export async function digest(content) {
  return hex(await sha256(content));
}

const hmacKeys = new WeakMap();

/** The deployment's secret as a key that signs and verifies with HMAC-SHA-256; made once of each secret. */
export async function hmacKey(secret) {
  let key = hmacKeys.get(secret);
  if (key === undefined) {
    key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
    hmacKeys.set(secret, key);
  }
  return key;
}

export async function hmac(secret, content) {
  return new Uint8Array(await crypto.subtle.sign("HMAC", await hmacKey(secret), content));
}
