// The page: follows the fleet, and shows the view, the filter and the selection that the address names.

import { byId, make, name, printable, say } from "./dom.js";
import { Feed, Refused, keepToken, useToken } from "./feed.js";
import { NO_FILTER, cardsOf, concerns, countStates, matches, readFleet, sentence } from "./fleet.js";
import { Panel } from "./panel.js";
import { Picture } from "./picture.js";
import { Listing, sign } from "./tables.js";
import { walk } from "./walk.js";
import { whatIf } from "./whatif.js";
import { STATES, counted, duration } from "./words.js";

const VIEWS = ["fleet", "waiting", "claims", "gangs", "whatif"];
const OLD_SECONDS = 30;
const MOST_NAMESPACES = 500;
const FORM = "lode-form";
const TIP = "Arrow keys go from card to card, Enter shows the details, Escape closes them.";

keepToken();
let fleet = null;
let place = placeOf(location.hash);
let back = null; // what gets the focus when the details are closed
let proposed = new Set(); // cards that the last answer to "what if" named
let heardAt = null; // when the data was as old as it said
let filtered = "";

const picture = new Picture(byId("picture"));
const panel = new Panel(byId("panel"), select);
const tables = Object.fromEntries(
  ["cards", "waiting", "claims", "gangs"].map((kind) => [kind, new Listing(byId(`table-${kind}`), kind, select)]),
);
const restop = walk(byId("picture"), open, (thing) => say(byId("hint"), thing ? printable(hint(thing)) : TIP));
const feed = new Feed(
  (said) => {
    const first = !fleet;
    fleet = readFleet(said);
    proposed = new Set([...proposed].filter((id) => fleet.thing(id)));
    render();
    const nodes = fleet.nodes.filter((node) => node.cards.length);
    if (first) say(byId("said"), `${counted(fleet.cards.length, "card")} on ${counted(nodes.length, "node")}.`);
  },
  heard,
  failed,
);

/** The view, the filter and the selection in the fragment of an address. */
function placeOf(hash) {
  const [view, query = ""] = hash.slice(1).split("?");
  const said = new URLSearchParams(query);
  const text = (key) => said.get(key) ?? "";
  return {
    view: VIEWS.includes(view) ? view : "fleet",
    selected: text("select"),
    filter: {
      ...NO_FILTER,
      node: text("node"),
      namespace: text("namespace"),
      type: text("type"),
      states: new Set(said.getAll("state").filter((one) => Object.hasOwn(STATES, one))),
    },
  };
}

function hashOf({ view, selected, filter }) {
  const query = new URLSearchParams();
  for (const key of ["node", "namespace", "type"]) if (filter[key]) query.set(key, filter[key]);
  for (const state of filter.states) query.append("state", state);
  if (selected) query.set("select", selected);
  return `#${view}${query.size ? `?${query}` : ""}`;
}

function go(changes, how = "pushState") {
  place = { ...place, ...changes };
  history[how](null, "", hashOf(place));
  render();
}

const filterBy = (changes) => go({ filter: { ...place.filter, ...changes } }, "replaceState");

/** Show the details of something; what is chosen in the picture with the pointer leaves the focus there. */
function open(thing, cell, pointed) {
  back = cell;
  go({ selected: thing.id });
  if (!pointed) panel.title.focus();
}

function select(id) {
  if (!byId("panel").contains(document.activeElement)) back = document.activeElement;
  go({ selected: id });
  panel.title.focus();
}

function close() {
  go({ selected: "" });
  (back?.isConnected ? back : byId("main")).focus();
}

const hint = (thing) =>
  thing.kind === "card" ? sentence(thing) : `node ${thing.name}: ${counted(thing.cards.length, "card")}`;

/** Return how the fleet is shown: as the user wants it, else as fits its size. */
function formOf() {
  const wanted = localStorage.getItem(FORM);
  if (wanted) return wanted;
  return fleet.cards.length <= 96 ? "text" : fleet.cards.length <= 4000 ? "nodes" : "dots";
}

function render() {
  for (const view of VIEWS) byId(`view-${view}`).hidden = view !== place.view;
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.dataset.view === place.view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
    anchor.href = hashOf({ ...place, view: anchor.dataset.view, selected: "" });
  }
  byId("filters").hidden = place.view === "whatif";
  byId("switch").hidden = place.view !== "fleet";
  if (!fleet) return;
  renderFilters();
  renderGaps();
  panel.show(place.selected, fleet);
  const selected = fleet.thing(place.selected);
  picture.mark(selected ? new Set(cardsOf(selected).map((card) => card.id)) : proposed);
  const wanted = (things) => things.filter((thing) => concerns(thing, place.filter));
  const found = { waiting: fleet.waiting, claims: fleet.claims, gangs: fleet.gangs };
  for (const kind of Object.keys(found))
    say(byId(`count-${kind}`), found[kind].length ? found[kind].length.toLocaleString("en") : "");
  if (place.view === "fleet") renderFleet();
  else if (place.view in found) {
    const shown = wanted(found[place.view]);
    tables[place.view].show(shown, place.selected);
    tell(shown.length, found[place.view].length);
  }
}

async function renderFleet() {
  const form = formOf();
  for (const button of document.querySelectorAll("[data-form]"))
    if (button.tagName === "BUTTON") button.setAttribute("aria-pressed", String(button.dataset.form === form));
  byId("picture").hidden = byId("hint").hidden = form === "table";
  byId("table-cards").hidden = form !== "table";
  const { filter } = place;
  if (form === "table") {
    const cards = fleet.cards.filter((card) => matches(card, filter));
    tables.cards.show(cards, place.selected);
    tell(cards.length, fleet.cards.length);
    return;
  }
  const all = fleet.cards.length;
  byId("picture").setAttribute("aria-busy", "true");
  if (await picture.show(fleet, filter, form)) {
    byId("picture").removeAttribute("aria-busy");
    restop();
    tell(picture.shown, all);
  }
}

/** Tell how many rows or cards the filter leaves; aloud when the filter has changed. */
function tell(shown, all) {
  const text = shown === all ? "" : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} shown`;
  say(byId("shown"), text);
  const now = hashOf({ ...place, selected: "" });
  if (filtered && filtered !== now) say(byId("said"), text || "All shown");
  filtered = now;
}

function renderFilters() {
  const { filter } = place;
  for (const key of ["node", "namespace"]) {
    const field = byId(`filter-${key}`);
    if (field !== document.activeElement && field.value !== filter[key]) field.value = filter[key];
  }
  options(byId("filter-type"), ["", ...fleet.types], "all types");
  byId("filter-type").value = filter.type;
  options(byId("namespaces"), fleet.namespaces.slice(0, MOST_NAMESPACES), "");
  byId("filter-reset").hidden = !(filter.node || filter.namespace || filter.type || filter.states.size);
  const counts = countStates(fleet.cards);
  for (const button of byId("legend").children) {
    const state = button.dataset.state;
    const pressed = filter.states.has(state);
    button.setAttribute("aria-pressed", String(pressed));
    button.hidden = !counts[state] && !pressed && STATES[state].rare;
    say(button.querySelector(".count"), (counts[state] ?? 0).toLocaleString("en"));
  }
}

function options(element, values, none) {
  const known = [...element.children].map((option) => option.value);
  if (known.length === values.length && known.every((value, at) => value === values[at])) return;
  element.replaceChildren(...values.map((value) => make("option", { value }, printable(value) || none)));
}

function renderGaps() {
  const gaps = [...fleet.missing.map((one) => one.message), ...fleet.notes];
  byId("gaps").hidden = !gaps.length;
  say(byId("gaps").firstElementChild, `${counted(gaps.length, "gap")} in what is shown`);
  byId("gaps").lastElementChild.replaceChildren(
    ...gaps.slice(0, 100).map((text) => make("li", {}, name(text, "message"))),
  );
}

function heard(age) {
  heardAt = Date.now() / 1000 - age;
  trouble(fleet?.problems.map((one) => `What is shown of ${one.kind} is old: ${one.message}`) ?? []);
  tick();
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) login(error.message);
  const said = error instanceof Refused ? error.message : "The server does not answer. Is lode ui still running?";
  trouble([fleet ? `${said} What is shown is old.` : said]);
  tick();
}

/** Say what is wrong now; what was said is not said again. */
function trouble(texts) {
  const box = byId("trouble");
  const now = [...box.children].map((one) => one.textContent);
  if (now.length !== texts.length || now.some((text, at) => text !== printable(texts[at]))) {
    box.replaceChildren(...texts.map((text) => make("p", {}, name(text, "message"))));
  }
}

function tick() {
  if (heardAt === null) return;
  const age = Math.max(0, Date.now() / 1000 - heardAt);
  byId("age").dataset.age = age > OLD_SECONDS || byId("trouble").childElementCount ? "old" : "new";
  say(byId("age"), `Read ${duration(age)} ago`);
}

function login(why) {
  say(byId("login-why"), why);
  if (!byId("login").open) byId("login").showModal();
}

function start() {
  for (const [state, { label, means }] of Object.entries(STATES)) {
    const button = make(
      "button",
      {
        type: "button",
        "data-state": state,
        title: means,
        "aria-pressed": "false",
        click: () => {
          const states = new Set(place.filter.states);
          if (!states.delete(state)) states.add(state);
          filterBy({ states });
        },
      },
      sign(state),
      ` ${label} `,
      make("span", { class: "count" }),
    );
    byId("legend").append(button);
  }
  byId("filter-node").addEventListener("input", ({ target }) => filterBy({ node: target.value.trim() }));
  byId("filter-namespace").addEventListener("input", ({ target }) => filterBy({ namespace: target.value.trim() }));
  byId("filter-type").addEventListener("change", ({ target }) => filterBy({ type: target.value }));
  byId("filter-reset").addEventListener("click", () => {
    byId("filter-node").value = byId("filter-namespace").value = "";
    filterBy(NO_FILTER);
    byId("filter-node").focus();
  });
  for (const button of document.querySelectorAll("button[data-form]")) {
    button.addEventListener("click", () => {
      localStorage.setItem(FORM, button.dataset.form);
      render();
    });
  }
  byId("panel-close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && place.selected && !byId("login").open) close();
  });
  for (const skip of document.querySelectorAll("[data-skip]")) {
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      const target = byId(skip.dataset.skip);
      (target.hidden ? byId("main") : target).focus();
    });
  }
  window.addEventListener("hashchange", () => {
    keepToken();
    const { view } = place;
    place = placeOf(location.hash);
    render();
    if (view !== place.view) byId(`title-${place.view}`).focus();
  });
  byId("login-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(byId("token").value.trim());
    byId("token").value = "";
    byId("login").close();
    feed.now();
  });
  whatIf(select, (cards) => {
    proposed = cards;
    if (fleet && !place.selected) picture.mark(cards);
  });
  say(byId("hint"), TIP);
  setInterval(tick, 1000);
  render();
  feed.now();
}

start();
