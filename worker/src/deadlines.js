/** Waiting no longer than is good. */

/** What a promise brings, or what `late` throws if it takes longer than so many milliseconds. */
export async function within(promise, ms, late) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
    // Whoever comes too late has nobody to tell its failure to.
    promise.catch(() => {});
  }
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
