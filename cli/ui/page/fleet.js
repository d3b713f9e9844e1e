// The fleet as objects that point at each other, from the columns of the document. Pure.

const MOST_NODES = 128; // of a group that is shown as one

/** Return rows as objects of the columns; a column that is too short gives undefined. */
function rows(table, columns) {
  const count = table?.[columns[0]]?.length ?? 0;
  return Array.from({ length: count }, (_, at) => {
    const row = {};
    for (const column of columns) row[column] = table[column]?.[at];
    return row;
  });
}

/**
 * Return the fleet: nodes with their cards, cards with what claims hold of them, claims with their pods and cards,
 * pods, gangs with their members, and the cards in fabrics.
 */
export function readFleet(document) {
  const text = (list, at) => (at >= 0 ? (document[list]?.[at] ?? "") : "");
  const gangs = rows(document.gangs, [
    "name",
    "namespace",
    "members",
    "size",
    "needed",
    "allocated",
    "running",
    "nodes",
    "cards",
    "ibClusters",
    "reason",
    "message",
  ]);
  for (const gang of gangs) {
    named(gang, "gang", text);
    gang.ibClusters = (gang.ibClusters ?? []).map((at) => text("ibClusters", at));
    gang.pods = [];
  }
  const nodes = rows(document.nodes, ["name", "cards", "ready", "open"]);
  const pods = rows(document.pods, [
    "name",
    "namespace",
    "node",
    "phase",
    "gang",
    "awaits",
    "reason",
    "message",
    "since",
  ]);
  for (const pod of pods) {
    named(pod, "pod", text);
    pod.phase = text("phases", pod.phase);
    pod.node = nodes[pod.node] ?? null;
    pod.gang = gangs[pod.gang] ?? null;
    pod.claims = [];
    pod.gang?.pods.push(pod);
  }
  const claims = rows(document.claims, ["name", "namespace", "allocated", "pods", "since"]);
  for (const claim of claims) {
    claim.pods = (claim.pods ?? []).map((at) => pods[at]).filter(Boolean);
    // A claim that is made for a pod begins with its name, which is written once.
    if (claim.name.startsWith("*")) claim.name = `${claim.pods[0]?.name ?? ""}${claim.name.slice(1)}`;
    named(claim, "claim", text);
    claim.cards = [];
    for (const pod of claim.pods) pod.claims.push(claim);
  }
  for (const pod of pods) {
    for (const claim of (pod.awaits ?? []).map((at) => claims[at]).filter(Boolean)) {
      if (claim.pods.includes(pod)) continue;
      claim.pods.push(pod);
      pod.claims.push(claim);
    }
  }
  const cards = readCards(document, nodes, claims, text);
  return {
    nodes,
    cards,
    claims,
    pods,
    gangs,
    fabrics: fabricsOf(nodes),
    types: document.types ?? [],
    namespaces: document.namespaces ?? [],
    waiting: pods.filter((pod) => pod.phase === "waiting" || (pod.phase === "pending" && pod.reason)),
    notes: document.notes ?? [],
    missing: document.missing ?? [],
    problems: document.problems ?? [],
    driver: document.driver ?? "",
    /** Return what has this id, as `card/NODE/CARD` or `pod/NAMESPACE/NAME`. */
    thing(id) {
      const list = { node: nodes, card: cards, claim: claims, pod: pods, gang: gangs }[id.slice(0, id.indexOf("/"))];
      return list?.find((one) => one.id === id) ?? null;
    },
  };
}

function named(thing, kind, text) {
  thing.kind = kind;
  thing.namespace = text("namespaces", thing.namespace);
  thing.id = `${kind}/${thing.namespace}/${thing.name}`;
  if ("reason" in thing) {
    thing.reason = text("reasons", thing.reason);
    thing.message = text("messages", thing.message);
  }
}

function readCards(document, nodes, claims, text) {
  const column = document.cards ?? {};
  const held = document.holdings ?? {};
  const cards = [];
  let at = 0;
  let holding = 0;
  for (const node of nodes) {
    node.kind = "node";
    node.id = `node/${node.name}`;
    const count = node.cards;
    node.cards = [];
    for (const end = at + count; at < end; at++) {
      const name = text("cardNames", column.name[at]);
      const card = {
        kind: "card",
        node,
        name,
        id: `card/${node.name}/${name}`,
        type: text("types", column.type[at]),
        ibCluster: text("ibClusters", column.ibCluster[at]),
        nvlinkDomain: text("nvlinkDomains", column.nvlinkDomain[at]),
        memory: column.memory[at],
        state: text("states", column.state[at]),
        use: text("states", column.use[at]),
        closures: document.closures[column.closure[at]] ?? [],
        memoryHeld: column.memoryHeld[at],
        coresHeld: column.coresHeld[at],
        largestFree: column.largestFree[at],
        holdings: [],
      };
      for (const last = holding + column.holdings[at]; holding < last; holding++) {
        card.holdings.push(readHolding(held, holding, claims, card, text));
      }
      node.cards.push(card);
      cards.push(card);
    }
  }
  return cards;
}

function readHolding(held, at, claims, card, text) {
  const claim = claims[held.claim[at]] ?? null;
  if (claim && !claim.cards.includes(card)) claim.cards.push(card);
  return {
    claim,
    device: text("deviceNames", held.device[at]),
    use: text("states", held.use[at]),
    memory: held.memory[at],
    cores: held.cores[at],
    looksOn: held.looksOn[at] === 1,
  };
}

/**
 * Return groups of nodes by the InfiniBand cluster of their cards, by name; those of no known cluster come last. A
 * large group comes in parts with a number, 0 for a whole one.
 */
function fabricsOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    if (!node.cards.length) continue;
    const name = node.cards[0].ibCluster;
    if (!found.has(name)) found.set(name, { name, nodes: [] });
    found.get(name).nodes.push(node);
  }
  const order = new Intl.Collator("en", { numeric: true });
  const sorted = [...found.values()].sort((a, b) => (a.name === "") - (b.name === "") || order.compare(a.name, b.name));
  return sorted.flatMap(({ name, nodes: members }) => {
    if (members.length <= MOST_NODES) return [{ name, part: 0, nodes: members }];
    return Array.from({ length: Math.ceil(members.length / MOST_NODES) }, (_, at) => ({
      name,
      part: at + 1,
      nodes: members.slice(at * MOST_NODES, (at + 1) * MOST_NODES),
    }));
  });
}

/** Return who holds something, as texts: pods, and claims without one. */
export function holders(card) {
  const found = new Set();
  for (const { claim, looksOn } of card.holdings) {
    if (looksOn) continue;
    if (!claim) found.add("somebody in a namespace that you may not see");
    else if (claim.pods.length) for (const pod of claim.pods) found.add(`${pod.namespace}/${pod.name}`);
    else found.add(`${claim.namespace}/claim/${claim.name}`);
  }
  return [...found];
}

/** Return the part of a card that claims hold, from 0 to 1: the larger one of memory and cores. */
export function fraction(card) {
  if (card.use === "whole") return 1;
  const memory = card.memory > 0 ? card.memoryHeld / card.memory : 0;
  return Math.min(1, Math.max(memory, card.coresHeld / 100));
}

/** Return a card in one sentence, for those who do not see it. */
export function sentence(card) {
  const closed = card.closures.length ? `${card.closures.join(" and ")}, ` : "";
  const use = card.use === "free" ? (closed ? "" : "free, ") : `${card.use}, `;
  const by = holders(card);
  const held = by.length
    ? `, held by ${by.slice(0, 3).join(", ")}${by.length > 3 ? ` and ${by.length - 3} more` : ""}`
    : "";
  return `${card.name} on ${card.node.name}: ${closed}${use}${card.type || "unknown type"}${held}`;
}

/** What the fields of the filter say. The states are a set; an empty one shows all. */
export const NO_FILTER = { node: "", namespace: "", type: "", states: new Set() };

/** Return whether a card is one that the filter asks for. */
export function matches(card, filter) {
  if (filter.node && !card.node.name.includes(filter.node)) return false;
  if (filter.type && card.type !== filter.type) return false;
  if (filter.namespace && !card.holdings.some((one) => one.claim?.namespace.includes(filter.namespace))) return false;
  return (
    !filter.states.size ||
    (filter.states.has(card.use) && (card.use !== "free" || !card.closures.length)) ||
    card.closures.some((closure) => filter.states.has(closure))
  );
}

/** Return whether a claim, pod or gang is one that the filter asks for: by its namespace, and by its cards. */
export function concerns(thing, filter) {
  if (!thing.namespace.includes(filter.namespace)) return false;
  if (!filter.node && !filter.type && !filter.states.size) return true;
  const of = { ...filter, namespace: "" };
  return cardsOf(thing).some((card) => matches(card, of));
}

/** Return the cards that something has; a card and a node are in the picture themselves. */
export function cardsOf(thing) {
  if (thing.kind === "card") return [thing];
  if (thing.kind === "gang") return thing.pods.flatMap(cardsOf);
  if (thing.kind === "pod") return [...new Set(thing.claims.flatMap((claim) => claim.cards))];
  return thing.cards;
}

/** Return the number of cards in each state; one in use that is closed counts in both. */
export function countStates(cards) {
  const counts = {};
  for (const card of cards) {
    if (card.use !== "free" || !card.closures.length) counts[card.use] = (counts[card.use] ?? 0) + 1;
    for (const closure of card.closures) counts[closure] = (counts[closure] ?? 0) + 1;
  }
  return counts;
}
