// The fleet as a picture: fabrics, in them nodes, in them cards, each an element of its own.
//
// A card is a cell of a grid, whose row is the node. What is not in sight is neither laid out nor painted, and a large
// fleet is made in short slices, those in sight first; so the first picture does not wait for the last.

import { counted, heldMemory, memory } from "./words.js";
import { countStates, fraction, holders, matches, sentence } from "./fleet.js";
import { make, name, printable, say } from "./dom.js";

const SLICE_MILLISECONDS = 40;

const nextTask = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(0);
  });

/** Shows fleets, one after the other, in an element; what is the same stays as it is. */
export class Picture {
  #fabrics = new Map(); // name -> elements
  #tiles = new Map(); // name of the node -> tile
  #marked = new Set();
  #run = 0;
  shown = 0; // cards that the filter asks for

  constructor(root) {
    this.root = root;
    this.cells = new Map(); // id of the card -> cell
  }

  /** Show the fleet. The promise is kept when all of it is there; a later call takes over. */
  async show(fleet, filter, form) {
    const run = ++this.#run;
    this.#form(form);
    this.shown = 0;
    let deadline = performance.now() + SLICE_MILLISECONDS;
    const nodes = new Set();
    let before = null;
    for (const fabric of fleet.fabrics) {
      const group = this.#group(fabric, before);
      before = group.section;
      let last = null;
      let any = false;
      for (const node of fabric.nodes) {
        nodes.add(node.name);
        const tile = this.#tile(node, filter, form);
        any ||= !tile.element.hidden;
        const next = last ? last.nextSibling : group.grid.firstChild;
        if (next !== tile.element) group.grid.insertBefore(tile.element, next);
        last = tile.element;
        if (performance.now() > deadline) {
          group.section.hidden = !any;
          await nextTask();
          if (run !== this.#run) return false;
          deadline = performance.now() + SLICE_MILLISECONDS;
        }
      }
      group.section.hidden = !any;
    }
    this.#forget(fleet, nodes);
    return true;
  }

  /** Ring the cards with these ids, and no others. */
  mark(ids) {
    for (const id of this.#marked) this.cells.get(id)?.classList.remove("marked");
    this.#marked = ids;
    for (const id of ids) this.cells.get(id)?.classList.add("marked");
    this.root.classList.toggle("marking", ids.size > 0);
  }

  #form(form) {
    this.root.dataset.form = form;
  }

  #group(fabric, before) {
    const key = JSON.stringify([fabric.name, fabric.part]);
    let group = this.#fabrics.get(key);
    if (!group) {
      const title = make("h3", { id: `fabric-${this.#fabrics.size}-${this.#run}` });
      title.append(
        fabric.name ? "InfiniBand cluster " : "No known InfiniBand cluster",
        fabric.name ? name(fabric.name) : "",
        fabric.part ? ` (${fabric.part})` : "",
      );
      const facts = make("p", { class: "facts" });
      const grid = make("div", { class: "grid", role: "grid", "aria-labelledby": title.id, "aria-readonly": "true" });
      group = {
        section: make("section", { class: "fabric" }, make("div", { class: "fabric-head" }, title, facts), grid),
        grid,
        facts,
      };
      this.#fabrics.set(key, group);
    }
    const next = before ? before.nextSibling : this.root.firstChild;
    if (next !== group.section) this.root.insertBefore(group.section, next);
    if (group.fabric !== fabric) {
      group.fabric = fabric;
      const cards = fabric.nodes.flatMap((node) => node.cards);
      say(
        group.facts,
        [
          counted(fabric.nodes.length, "node"),
          counted(cards.length, "card"),
          `${countStates(cards).free ?? 0} free`,
        ].join(", "),
      );
    }
    return group;
  }

  #tile(node, filter, form) {
    let tile = this.#tiles.get(node.name);
    if (!tile) {
      const offer = make("span", { class: "facts", "aria-hidden": "true" });
      const label = make("span", { class: "node-name", role: "rowheader", tabindex: -1 }, name(node.name), offer);
      tile = {
        offer,
        element: make("div", { class: "node", role: "row" }, label),
        label,
        cells: new Map(),
        signature: "",
      };
      this.#tiles.set(node.name, tile);
    }
    tile.label.thing = node;
    tile.element.style.setProperty("--cards", node.cards.length);
    if (form === "text" && tile.offered !== node) tile.offer.replaceChildren(...offered(node));
    if (form === "text") tile.offered = node;
    const state = nodeState(node);
    if (state !== tile.state) {
      tile.state = state;
      tile.element.dataset.is = state;
      tile.label.setAttribute("aria-label", `node ${printable(node.name)}${state ? `, ${state}` : ""}`);
    }
    let any = false;
    const names = new Set();
    let last = tile.label;
    for (const card of node.cards) {
      names.add(card.name);
      const cell = this.#cell(tile, card, form);
      if (last.nextSibling !== cell) tile.element.insertBefore(cell, last.nextSibling);
      last = cell;
      const wanted = matches(card, filter);
      if (cell.other === wanted) cell.classList.toggle("other", !wanted);
      cell.other = !wanted;
      any ||= wanted;
      if (wanted) this.shown++;
    }
    for (const [gone, cell] of tile.cells) {
      if (names.has(gone)) continue;
      cell.remove();
      tile.cells.delete(gone);
      this.cells.delete(cell.thing.id);
    }
    tile.element.hidden = !any;
    return tile;
  }

  #cell(tile, card, form) {
    let cell = tile.cells.get(card.name);
    if (!cell) {
      cell = document.createElement("span");
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      cell.other = false;
      cell.className = this.#marked.has(card.id) ? "card marked" : "card";
      tile.cells.set(card.name, cell);
      this.cells.set(card.id, cell);
    }
    const texts = form === "text";
    if (cell.thing === card && cell.texts === texts) return cell;
    cell.thing = card;
    cell.texts = texts;
    const said = sentence(card);
    const held = fraction(card);
    const signature = [texts, card.state, card.use, card.closures, held, card.memory, said].join();
    if (cell.signature === signature) return cell;
    cell.signature = signature;
    cell.dataset.state = card.state;
    cell.dataset.use = card.use;
    cell.dataset.lid = card.state === card.use ? (card.closures[0] ?? "") : "";
    if (card.use === "shared" || card.use === "partitioned") cell.style.setProperty("--held", held);
    cell.setAttribute("aria-label", printable(said));
    if (texts) fill(cell, card);
    else cell.replaceChildren();
    return cell;
  }

  #forget(fleet, nodes) {
    for (const [gone, tile] of this.#tiles) {
      if (nodes.has(gone)) continue;
      tile.element.remove();
      this.#tiles.delete(gone);
      for (const cell of tile.cells.values()) this.cells.delete(cell.thing.id);
    }
    const fabrics = new Set(fleet.fabrics.map((fabric) => JSON.stringify([fabric.name, fabric.part])));
    for (const [gone, group] of this.#fabrics) {
      if (fabrics.has(gone)) continue;
      group.section.remove();
      this.#fabrics.delete(gone);
    }
  }
}

/** Return what is to be said of a node besides its name; "" if it is as it should be. */
export function nodeState(node) {
  return [node.open === 0 ? "cordoned" : "", node.ready === 0 ? "not ready" : ""].filter(Boolean).join(", ");
}

/** Return how many cards of which types a node has, and how many of them are free. */
function offered(node) {
  const types = new Map();
  for (const { type } of node.cards) types.set(type, (types.get(type) ?? 0) + 1);
  const offers = [...types].flatMap(([type, count]) => [`${count} \u00d7 `, name(type || "unknown type"), ", "]);
  return [...offers, `${countStates(node.cards).free ?? 0} free`];
}

/** Fill the cell with the texts of the form that shows them; a screen reader has the label. */
function fill(cell, card) {
  const by = holders(card);
  const first = by.length ? by[0] : card.closures.length ? card.closures.join(", ") : card.state;
  const more = by.length > 1 ? ` +${by.length - 1}` : "";
  const whole = card.memory > 0 && (card.use === "free" || card.memoryHeld === card.memory);
  const amount = whole ? memory(card.memory) : card.memory > 0 ? heldMemory(card) : "";
  cell.replaceChildren(
    make(
      "span",
      { class: "card-name", "aria-hidden": "true" },
      name(card.name),
      " ",
      make("span", { class: "amount" }, amount),
    ),
    make("span", { class: "card-holder", "aria-hidden": "true" }, name(first), more),
  );
}
