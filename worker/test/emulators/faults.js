/**
 * Everything an upstream can do wrong with an answer: the list of tests/faults/replies.py, by the same names.
 *
 * Each is called with the socket, the call, and a good body for it, and writes what it likes.  `BREAKING` are no answers,
 * `PASSED_ON` go through as they came and must never be a hit, `ODD` are all of an answer.
 */

import { gzipSync } from "node:zlib";

const JSON_KIND = "content-type: application/json\r\n";
const GOOD_HEAD = `HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: LENGTH\r\n`;
const CHUNKED = `HTTP/1.1 200 OK\r\n${JSON_KIND}transfer-encoding: chunked\r\n\r\n`;
const STREAMED = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const FOREIGN = `HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: 24\r\n\r\n{"stolen":"<<another>>"}`;
const SLICE = `data: {"id":"x","choices":[{"index":0,"delta":{"content":"${".".repeat(4000)}"}}]}\n\n`;
// More than the edge holds of one answer.
const BOMB_BYTES = 12 * 2 ** 20;

/** These very bytes, "BODY" standing for a good body and "LENGTH" for its length; then the connection closes. */
function wire(...parts) {
  return (socket, { body }) => {
    for (const part of parts) socket.write(filled(part, body));
    socket.end();
  };
}

function wireAndStay(...parts) {
  return (socket, { body }) => {
    for (const part of parts) socket.write(filled(part, body));
  };
}

function filled(part, body) {
  if (typeof part !== "string") return part;
  return Buffer.from(part.replaceAll("LENGTH", String(Buffer.byteLength(body))).replaceAll("BODY", body), "latin1");
}

/** A good answer as it goes over the wire, in the shape that is asked for. */
function answerBytes({ body, events, isStream }) {
  if (!isStream) return filled(`${GOOD_HEAD}\r\nBODY`, body);
  return Buffer.from(`${STREAMED}${events.map(chunk).join("")}0\r\n\r\n`);
}

function chunk(text) {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** A good answer that ends at a byte, or at a share of all; `ends` is how. */
function cutAt(place, ends) {
  return (socket, told) => {
    const sent = answerBytes(told);
    socket.write(sent.subarray(0, place < 1 ? Math.floor(place * sent.length) : place), () => ends(socket));
  };
}

const fin = (socket) => socket.end();
const reset = (socket) => socket.resetAndDestroy();

/** A good answer that goes on no more, on a connection that stays. */
function stopsAt(share) {
  return (socket, told) => {
    const sent = answerBytes(told);
    socket.write(sent.subarray(0, Math.floor(share * sent.length)));
  };
}

/** A piece again and again, until the caller has had enough. */
function endless(piece, head) {
  return async (socket) => {
    socket.write(head);
    while (!socket.destroyed) {
      if (!socket.write(piece)) await roomIn(socket);
      await new Promise((turn) => setTimeout(turn, 1));
    }
  };
}

/** Until more can be written, or nobody reads any more. */
function roomIn(socket) {
  return new Promise((resolve) => {
    const done = () => {
      socket.off("drain", done).off("close", done);
      resolve();
    };
    socket.on("drain", done).on("close", done);
  });
}

async function dripWithoutEnd(socket, told) {
  for (const byte of answerBytes(told)) {
    if (socket.destroyed) return;
    socket.write(Buffer.of(byte));
    await new Promise((turn) => setTimeout(turn, 50));
  }
}

async function byteByByte(socket, told) {
  for (const byte of answerBytes(told)) {
    socket.write(Buffer.of(byte));
    await new Promise((turn) => setImmediate(turn));
  }
}

function coded(pack, coding = "gzip") {
  return (socket, { body }) => {
    const packed = pack(Buffer.from(body));
    socket.write(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-encoding: ${coding}\r\ncontent-length: ${packed.length}\r\n\r\n`);
    socket.write(packed);
  };
}

/** An error of the upstream in its own words. */
function told(status, more = "") {
  return (socket, { question }) => {
    const error = JSON.stringify({ error: { message: `no: ${question}`, type: "busy" } });
    const head = `HTTP/1.1 ${status} X\r\n${JSON_KIND}${more}content-length: ${Buffer.byteLength(error)}\r\n\r\n`;
    socket.write(Buffer.from(head + error, "latin1"));
  };
}

/** A stream, whoever asks, of other events than it should have. */
function changed(change) {
  return (socket, { events, question }) => {
    socket.write(STREAMED);
    for (const event of change(events, question)) socket.write(typeof event === "string" ? chunk(event) : event);
    socket.write("0\r\n\r\n");
  };
}

function halfACharacter() {
  const event = Buffer.concat([Buffer.from('data: {"x": "'), Buffer.of(0xe2, 0x82), Buffer.from('"}\n\n')]);
  return Buffer.concat([Buffer.from(`${event.length.toString(16)}\r\n`), event, Buffer.from("\r\n")]);
}

export const BREAKING = {
  "resets at once": reset,
  "closes at once": fin,
  "closes in the head": cutAt(25, fin),
  "resets in the head": cutAt(25, reset),
  "closes after the head": wire(GOOD_HEAD, "\r\n"),
  "closes in the body": cutAt(0.6, fin),
  "resets in the body": cutAt(0.6, reset),
  "hangs before the head": () => {},
  "hangs in the head": stopsAt(0.05),
  "hangs in the body": stopsAt(0.6),
  "drips without an end": dripWithoutEnd,
  "never ends its head": endless("x: y\r\n", "HTTP/1.1 200 OK\r\n"),
  "never ends a line of its head": endless("x".repeat(1000), "HTTP/1.1 200 OK\r\nx: "),
  "never ends its whole answer": endless(`10000\r\n${" ".repeat(65_536)}\r\n`, CHUNKED),
  "never ends its stream": endless(chunk(SLICE), STREAMED),
  "never ends an event": endless(`1000\r\n${"x".repeat(4096)}\r\n`, `${STREAMED}6\r\ndata: \r\n`),
  "never stops saying 100": endless("HTTP/1.1 100 Continue\r\n\r\n", ""),
  "says a longer length and closes": wire(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: 99999\r\n\r\nBODY`),
  "says a longer length and stays": wireAndStay(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: 99999\r\n\r\nBODY`),
  "says a shorter length": wireAndStay(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: 40\r\n\r\nBODY`),
  "says two lengths": wire(GOOD_HEAD, "content-length: 5\r\n\r\nBODY"),
  "says a length below nothing": wire(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: -1\r\n\r\nBODY`),
  "says no number as length": wire(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: many\r\n\r\nBODY`),
  "says a length and chunks": wire(GOOD_HEAD, "transfer-encoding: chunked\r\n\r\n5\r\nBODY"),
  "sends a chunk without a size": wire(CHUNKED, "zz\r\nBODY\r\n0\r\n\r\n"),
  "sends a chunk of 2**70 bytes": wire(CHUNKED, "400000000000000000\r\nBODY"),
  "sends a chunk below nothing": wire(CHUNKED, "-5\r\nBODY\r\n0\r\n\r\n"),
  "sends a chunk longer than its size": wire(CHUNKED, "5\r\nBODY\r\n0\r\n\r\n"),
  "forgets the last chunk": wire(CHUNKED, "5\r\n12345\r\n"),
  "sends a gzip bomb": coded(() => gzipSync(Buffer.alloc(BOMB_BYTES))),
  "cuts its gzip": coded((body) => gzipSync(body).subarray(0, -9)),
  "sends no gzip": coded((body) => body),
  "sends HTML": wire("<html><<another>></html>"),
  "speaks HTTP/0.9": wire("BODY"),
  "speaks HTTP/2": wire(Buffer.from("0000120400000000000003000000800004000100000005" + "00ffffff", "hex")),
  "speaks TLS": wire(Buffer.of(0x15, 3, 1, 0, 2, 2, 0x46)),
  "speaks noise": wire(Buffer.concat(Array(8).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i))))),
  "has a status of two digits": wire(`HTTP/1.1 99 X\r\n${JSON_KIND}content-length: LENGTH\r\n\r\nBODY`),
  "has a status of four digits": wire(`HTTP/1.1 1000 X\r\n${JSON_KIND}content-length: LENGTH\r\n\r\nBODY`),
  "changes the protocol": wire("HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", FOREIGN),
  "has a header without a colon": wire(GOOD_HEAD, "nonsense\r\n\r\nBODY"),
  "has a NUL in a header": wire(GOOD_HEAD, "x: a\0b\r\n\r\nBODY"),
  "has a line of 100 kB": wire(GOOD_HEAD, `x: ${"y".repeat(100_000)}\r\n\r\nBODY`),
};

export const PASSED_ON = {
  "an error in a 200": wire(`HTTP/1.1 200 OK\r\n${JSON_KIND}content-length: 26\r\n\r\n{"error":{"message":"x"}} `),
  "an error in mid-stream": changed((sent, asked) => [
    ...sent.slice(0, 3),
    `data: {"error": {"message": "lost: ${asked}"}}\n\n`,
    "data: [DONE]\n\n",
  ]),
  "a stream without [DONE]": changed((sent) => sent.slice(0, -1)),
  "a stream that is done twice": changed((sent) => [...sent, sent.at(-1)]),
  "an event after [DONE]": changed((sent) => [...sent, sent[1]]),
  "an empty stream": changed(() => []),
  "only comments": changed((_, asked) => Array(50).fill(`: ${asked}\n\n`)),
  "half a character": changed((sent) => [...sent.slice(0, 2), halfACharacter(), ...sent.slice(2)]),
  "an end told only by the connection": wire(`HTTP/1.1 200 OK\r\n${JSON_KIND}connection: close\r\n\r\nBODY`),
  "a coding that nobody knows": coded((body) => body, "br"),
  "gzip in gzip": coded((body) => gzipSync(gzipSync(body)), "gzip, gzip"),
  429: told(429),
  "429 with Retry-After 0": told(429, "retry-after: 0\r\n"),
  "429 with a Retry-After of 16 days": told(429, "retry-after: 1382400\r\n"),
  "429 with a Retry-After below nothing": told(429, "retry-after: -5\r\n"),
  "429 with a date as Retry-After": told(429, "retry-after: Thu, 31 Dec 2037 23:59:59 GMT\r\n"),
  503: told(503),
  "503 with Retry-After 0": told(503, "retry-after: 0\r\n"),
  "503 with noise as Retry-After": told(503, "retry-after: \xff\xfe soon\r\n"),
  500: told(500),
  "302 to elsewhere": told(302, "location: http://127.0.0.1:9/\r\n"),
  204: wire("HTTP/1.1 204 No Content\r\n\r\n"),
};

export const ODD = {
  "byte by byte": byteByByte,
  "100 before the answer": wire("HTTP/1.1 100 Continue\r\n\r\n", GOOD_HEAD, "\r\nBODY"),
  "102 and 103 before the answer": wire(
    "HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: x\r\n\r\n", GOOD_HEAD, "\r\nBODY",
  ),
  "100 after the answer": wireAndStay(GOOD_HEAD, "\r\nBODY", "HTTP/1.1 100 Continue\r\n\r\n"),
  "an answer to a question nobody asked": wireAndStay(GOOD_HEAD, "\r\nBODY", FOREIGN),
  "200 fields": wire(GOOD_HEAD, Array.from({ length: 60 }, (_, i) => `x-${i}: ${i}\r\n`).join(""), "\r\nBODY"),
  "a field of 60 kB": wire(GOOD_HEAD, `x: ${"y".repeat(60_000)}\r\n\r\nBODY`),
  "a folded field": wire(GOOD_HEAD, "x: a\r\n b\r\n\r\nBODY"),
  "lines that end in LF": wire(GOOD_HEAD.replaceAll("\r\n", "\n"), "\nBODY"),
  trailers: wire(CHUNKED, "5\r\n     \r\n0\r\nx-trailer: <<another>>\r\n\r\n"),
};

