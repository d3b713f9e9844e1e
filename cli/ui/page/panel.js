// The details of what is selected, and what the cluster says about it when it is asked.

import { counted, heldMemory, memory, since, toBeHad } from "./words.js";
import { cardsOf, countStates, holders } from "./fleet.js";
import { ask } from "./feed.js";
import { answer } from "./answers.js";
import { link, make, name, printable, say } from "./dom.js";
import { nodeState } from "./picture.js";
import { several, stateOf } from "./tables.js";

const KINDS = { card: "Card", node: "Node", claim: "Claim", pod: "Pod", gang: "Gang" };

/** Shows one thing in the side of the page. */
export class Panel {
  #id = "";
  #asked = null; // what was asked about, and the answer of it

  constructor(root, select) {
    Object.assign(this, { root, select });
    this.title = root.querySelector("h2");
    this.body = root.querySelector("#panel-body");
  }

  /** Show the thing with this id; what was answered about it stays. */
  show(id, fleet) {
    this.root.hidden = !id;
    document.body.classList.toggle("with-panel", Boolean(id));
    if (!id) return;
    if (id !== this.#id) this.#asked = null;
    this.#id = id;
    const thing = fleet.thing(id);
    const [kind, ...rest] = id.split("/");
    say(this.title, printable(`${KINDS[kind] ?? kind} ${rest.join("/")}`));
    if (!thing) {
      this.body.replaceChildren(
        make("p", { class: "none" }, "It is not in the cluster any more, or you may not see it."),
      );
      return;
    }
    const parts = [more(thing, this.select), this.#explanation(thing)];
    if (thing.reason || thing.phase === "waiting") parts.reverse();
    this.#replace([make("dl", {}, facts(thing, this.select)), ...parts.flat()]);
  }

  /** Put in the new elements; the focus stays on the button that had it. */
  #replace(elements) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.target : null;
    this.body.replaceChildren(...elements);
    if (focused)
      [...this.body.querySelectorAll("button")]
        .find((one) => one.dataset.target === focused)
        ?.focus({ preventScroll: true });
  }

  #explanation(thing) {
    if (thing.kind === "node") return "";
    this.#asked ??= make(
      "div",
      { class: "explanation" },
      make(
        "button",
        {
          type: "button",
          class: "strong",
          "data-target": "explain",
          click: () => this.#explain(thing),
        },
        thing.reason || thing.phase === "waiting" ? "Why does it wait?" : "Explain",
      ),
      make("div", { class: "answer", "aria-live": "polite" }),
    );
    return this.#asked;
  }

  async #explain(thing) {
    const at = this.#asked;
    const said = at.lastElementChild;
    say(said, "The cluster is being read.");
    const what = thing.kind === "card" ? thing.id : `${thing.kind}/${thing.name}`;
    try {
      const response = await ask(`explain?${new URLSearchParams({ what, namespace: thing.namespace ?? "" })}`);
      said.replaceChildren(...answer(await response.json(), this.select));
    } catch (error) {
      said.replaceChildren(make("p", { class: "fault" }, name(error.message, "message")));
    }
  }
}

const fact = (label, ...values) =>
  values.flat().some((one) => one !== "" && one !== null) ? [make("dt", {}, label), make("dd", {}, ...values)] : [];

function facts(thing, select) {
  const now = Date.now() / 1000;
  switch (thing.kind) {
    case "card":
      return [
        fact("State", ...stateOf(thing)),
        fact("Node", link(thing.node.id, thing.node.name, select)),
        fact("Type", name(thing.type)),
        fact("Memory", thing.memory > 0 ? `${heldMemory(thing)} held` : "unknown"),
        fact("Cores", `${thing.coresHeld} % held`),
        fact("A claim can get", toBeHad(thing)),
        fact("InfiniBand cluster", thing.ibCluster && name(thing.ibCluster)),
        fact("NVLink domain", thing.nvlinkDomain && name(thing.nvlinkDomain)),
      ].flat();
    case "node":
      return [
        fact("State", nodeState(thing) || "takes pods"),
        fact("Cards", `${thing.cards.length}`),
        fact("InfiniBand cluster", thing.cards[0]?.ibCluster && name(thing.cards[0].ibCluster)),
        fact(
          "States of cards",
          Object.entries(countStates(thing.cards))
            .map(([state, count]) => `${count} ${state}`)
            .join(", "),
        ),
      ].flat();
    case "claim":
      return [
        fact("State", thing.allocated ? "allocated" : "waits"),
        fact("Since", since(thing.since, now)),
        fact("Used by", several(thing.pods.map((pod) => link(pod.id, pod.name, select)))),
      ].flat();
    case "pod":
      return [
        fact("Phase", thing.phase),
        fact("Node", thing.node && link(thing.node.id, thing.node.name, select)),
        fact("Gang", thing.gang && link(thing.gang.id, thing.gang.name, select)),
        fact("Waits since", since(thing.since, now)),
        fact("Reason", thing.reason && name(thing.reason)),
        fact("Claims", several(thing.claims.map((claim) => link(claim.id, claim.name, select)))),
      ].flat();
    default:
      return [
        fact("Members", thing.size >= 0 ? `${thing.members} of ${thing.size}` : `${thing.members}`),
        fact("Needed", thing.needed >= 0 ? `${thing.needed} to start` : ""),
        fact("Allocated", `${thing.allocated}`),
        fact("Running", `${thing.running} on ${counted(Math.max(0, thing.nodes), "node")}`),
        fact("Cards", `${thing.cards}`),
        fact("InfiniBand clusters", several(thing.ibClusters.map((one) => name(one)))),
        fact("Reason", thing.reason && name(thing.reason)),
      ].flat();
  }
}

/** What belongs to it, as a list. */
function more(thing, select) {
  const cardItem = (card) =>
    make(
      "li",
      {},
      ...stateOf(card).slice(0, 1),
      " ",
      link(card.id, `${card.node.name}/${card.name}`, select),
      " ",
      several(
        holders(card).map((one) => name(one)),
        2,
      ),
    );
  switch (thing.kind) {
    case "card":
      return thing.holdings.length
        ? [
            make("h3", {}, "Held by"),
            make(
              "ul",
              { class: "holdings" },
              thing.holdings.map((one) => make("li", {}, holding(one, select))),
            ),
          ]
        : [];
    case "node":
      return [make("h3", {}, "Cards"), make("ul", { class: "plain" }, thing.cards.map(cardItem))];
    case "claim":
    case "pod": {
      const cards = cardsOf(thing);
      const list = cards.length
        ? [make("h3", {}, counted(cards.length, "card")), make("ul", { class: "plain" }, cards.map(cardItem))]
        : [];
      return [...message(thing), ...list];
    }
    default:
      return [
        ...message(thing),
        make("h3", {}, "Pods"),
        make(
          "ul",
          { class: "plain" },
          thing.pods.map((pod) =>
            make("li", {}, link(pod.id, pod.name, select), ` ${pod.phase} `, pod.node ? name(pod.node.name) : ""),
          ),
        ),
      ];
  }
}

const message = (thing) =>
  thing.message ? [make("h3", {}, "Message"), make("p", {}, name(thing.message, "message"))] : [];

function holding(one, select) {
  if (!one.claim) return ["A claim of a namespace that you may not see", amounts(one)];
  const pods = several(one.claim.pods.map((pod) => link(pod.id, `${pod.namespace}/${pod.name}`, select)));
  return [
    ...(pods.length ? [...pods, " by claim "] : ["claim "]),
    link(one.claim.id, one.claim.name, select),
    amounts(one),
  ];
}

function amounts(one) {
  const parts = [
    one.device,
    one.memory >= 0 ? memory(one.memory) : "",
    one.cores >= 0 ? `${one.cores} % of the cores` : "",
    one.looksOn ? "looks on" : "",
  ];
  return make("p", { class: "amounts" }, name(parts.filter(Boolean).join(", ")));
}
