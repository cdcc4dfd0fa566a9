/** Patterns of names: `*` stands for any text, `?` for one character, all else for itself. */

export function isPattern(text) {
  return text.includes("*") || text.includes("?");
}

/** Each part between two stars is taken where it first fits, and never looked for again: no text takes long. */
export function matches(text, pattern) {
  if (!isPattern(pattern)) return text === pattern;
  const points = Array.from(text);
  const [first, ...parts] = pattern.split("*").map((part) => Array.from(part));
  if (parts.length === 0) return points.length === first.length && fits(points, first, 0);
  const last = parts.pop();
  if (!fits(points, first, 0)) return false;
  let at = first.length;
  for (const part of parts) {
    while (at + part.length <= points.length && !fits(points, part, at)) at += 1;
    if (at + part.length > points.length) return false;
    at += part.length;
  }
  return points.length - last.length >= at && fits(points, last, points.length - last.length);
}

function fits(points, part, at) {
  return at + part.length <= points.length && part.every((c, i) => c === "?" || c === points[at + i]);
}
