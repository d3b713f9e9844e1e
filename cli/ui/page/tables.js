// Things as tables: the other way to read the picture, and the lists of claims, waiting pods and gangs.

import { counted, heldMemory, since } from "./words.js";
import { holders } from "./fleet.js";
import { link, make, name } from "./dom.js";

const PAGE = 200;

/** A column: its header, and what a cell of it has (a text or elements). The first one says what the row is about. */
const TABLES = {
  cards: {
    caption: "Cards",
    columns: [
      ["Card", (card) => `${card.node.name}/${card.name}`],
      ["Type", (card) => name(card.type)],
      ["State", (card) => stateOf(card)],
      ["Held by", (card) => several(holders(card).map((one) => name(one)))],
      ["Memory held", (card) => heldMemory(card)],
      ["Cores held", (card) => `${card.coresHeld} %`],
      ["InfiniBand cluster", (card) => name(card.ibCluster)],
    ],
  },
  waiting: {
    caption: "Pods that wait for devices",
    none: "No pod waits for devices.",
    columns: [
      ["Pod", (pod) => `${pod.namespace}/${pod.name}`],
      ["Waits since", (pod, now) => since(pod.since, now)],
      ["Reason", (pod) => name(pod.reason)],
      ["Message", (pod) => name(pod.message, "message")],
      ["Gang", (pod, _, select) => (pod.gang ? link(pod.gang.id, pod.gang.name, select) : "")],
    ],
  },
  claims: {
    caption: "Claims",
    none: "There are no claims.",
    columns: [
      ["Claim", (claim) => `${claim.namespace}/${claim.name}`],
      ["State", (claim) => (claim.allocated ? "allocated" : "waits")],
      ["Used by", (claim, _, select) => several(claim.pods.map((pod) => link(pod.id, pod.name, select)))],
      [
        "Cards",
        (claim, _, select) =>
          several(claim.cards.map((card) => link(card.id, `${card.node.name}/${card.name}`, select))),
      ],
      ["Since", (claim, now) => since(claim.since, now)],
    ],
  },
  gangs: {
    caption: "Gangs",
    none: "There are no gangs.",
    columns: [
      ["Gang", (gang) => `${gang.namespace}/${gang.name}`],
      ["Members", (gang) => (gang.size >= 0 ? `${gang.members} of ${gang.size}` : `${gang.members}`)],
      ["Needed", (gang) => (gang.needed >= 0 ? `${gang.needed}` : "")],
      ["Allocated", (gang) => `${gang.allocated}`],
      ["Running", (gang) => `${gang.running}`],
      ["Cards", (gang) => `${gang.cards}`],
      ["InfiniBand clusters", (gang) => several(gang.ibClusters.map((one) => name(one)))],
      ["Waits for", (gang) => [name(gang.reason), " ", name(gang.message, "message")]],
    ],
  },
};

/** Return what a card is in, with its sign. */
export function stateOf(card) {
  const words = [card.use === "free" && card.closures.length ? null : card.use, ...card.closures].filter(Boolean);
  return [sign(card.state, card.use, card.state === card.use ? card.closures[0] : null), ` ${words.join(", ")}`];
}

/** Return the sign of a state, as in the picture. */
export const sign = (state, use = state, lid = null) =>
  make("span", { class: "sign", "data-state": state, "data-use": use, "data-lid": lid, "aria-hidden": "true" });

/** Return the elements with commas between them, the first ten of them. */
export function several(elements, most = 10) {
  const shown = elements.slice(0, most).flatMap((one, at) => (at ? [", ", one] : [one]));
  return elements.length > most ? [...shown, ` and ${(elements.length - most).toLocaleString("en")} more`] : shown;
}

/** A table in an element, a page of rows at a time. */
export class Listing {
  #pages = 1;

  constructor(root, kind, select) {
    Object.assign(this, { root, select, ...TABLES[kind] });
  }

  /** Show these things; those that do not fit on the page come when they are asked for. */
  show(things, selected = "") {
    const focused = this.root.contains(document.activeElement) ? document.activeElement.dataset.target : null;
    const now = Date.now() / 1000;
    const shown = things.slice(0, PAGE * this.#pages);
    const [first, ...others] = this.columns;
    // Roles are said because small screens show rows as blocks, which some browsers take for no table.
    const body = shown.map((thing) =>
      make(
        "tr",
        { role: "row", "aria-current": thing.id === selected ? "true" : null },
        make("th", { scope: "row", role: "rowheader" }, link(thing.id, first[1](thing, now), this.select)),
        others.map(([header, cell]) =>
          make("td", { role: "cell", "data-header": header }, cell(thing, now, this.select)),
        ),
      ),
    );
    const head = make(
      "tr",
      { role: "row" },
      this.columns.map(([header]) => make("th", { scope: "col", role: "columnheader" }, header)),
    );
    const table = make(
      "table",
      { role: "table" },
      make("caption", { class: "unseen" }, this.caption),
      make("thead", { role: "rowgroup" }, head),
      make("tbody", { role: "rowgroup" }, body),
    );
    const left = things.length - shown.length;
    const more = make(
      "button",
      { type: "button", class: "more", click: () => this.#more(things, selected) },
      `Show ${counted(Math.min(left, PAGE), "more row", "more rows")} of ${left.toLocaleString("en")}`,
    );
    if (things.length)
      this.root.replaceChildren(
        make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": this.caption }, table),
        left ? more : "",
      );
    else this.root.replaceChildren(make("p", { class: "none" }, this.none ?? "Nothing to show."));
    if (focused)
      [...this.root.querySelectorAll(".link")]
        .find((one) => one.dataset.target === focused)
        ?.focus({ preventScroll: true });
  }

  #more(things, selected) {
    const before = this.root.querySelectorAll("tbody tr").length;
    this.#pages++;
    this.show(things, selected);
    this.root.querySelectorAll("tbody tr")[before]?.querySelector(".link").focus();
  }
}
