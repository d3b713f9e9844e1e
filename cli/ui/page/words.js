// Amounts, ages and states as people read them. Pure.

/** What can be said of a card, in the order of the legend. */
export const STATES = {
  free: { label: "free", means: "nobody holds it, and a claim can have all of it" },
  whole: { label: "whole", means: "a claim holds the whole card" },
  shared: { label: "shared", means: "claims hold shares of it" },
  partitioned: { label: "partitioned", means: "claims hold partitions of it" },
  cordoned: { label: "cordoned", rare: true, means: "an operator closed it, or its node takes no pods" },
  releasing: { label: "releasing", rare: true, means: "an earlier claim is not off it yet; it opens by itself" },
  unhealthy: { label: "unhealthy", rare: true, means: "the plugin of its node says that it does not work" },
  foreign: { label: "foreign", rare: true, means: "another driver or program has it" },
  unpublished: { label: "unpublished", rare: true, means: "a claim holds it, and no node publishes it any more" },
};

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** Return bytes with three digits and a unit, as 79.6Gi. */
export function memory(bytes) {
  if (bytes < 0) return "unknown";
  let unit = 0;
  for (; bytes >= 1024 && unit < UNITS.length - 1; unit++) bytes /= 1024;
  return `${Number.isInteger(bytes) || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)}${UNITS[unit]}`;
}

/** Return how much of the memory of a card is held. Nothing says how much some cards of device plugins have. */
export function heldMemory(card) {
  return card.memory > 0 ? `${memory(card.memoryHeld)} of ${memory(card.memory)}` : "unknown";
}

/** Return how much of a card a claim can get. */
export function toBeHad(card) {
  if (card.memory > 0) return card.largestFree > 0 ? memory(card.largestFree) : "nothing";
  if (card.state === "shared") return "a slot, while one is free";
  return card.state === "free" ? "all of it, or a slot" : "nothing";
}

/** Return a duration as its largest unit, two of them where one is coarse, as kubectl does. */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** Return how long ago that was; "" if it is not known. */
export const since = (epoch, now) => (epoch > 0 ? duration(now - epoch) : "");

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
