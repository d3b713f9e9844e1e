// What the controller would decide about a manifest that somebody pastes.

import { answer, chosenCards, notes } from "./answers.js";
import { ask } from "./feed.js";
import { byId, make, name, say } from "./dom.js";
import { counted } from "./words.js";

/** Let the user ask; `chosen` gets the ids of the cards that the answer names. */
export function whatIf(select, chosen) {
  const said = byId("answer");
  const button = byId("ask");
  button.addEventListener("click", async () => {
    button.disabled = true;
    say(said, "The cluster is being read.");
    try {
      const query = new URLSearchParams({ namespace: byId("whatif-namespace").value.trim() });
      const response = await ask(`simulate?${query}`, {
        method: "POST",
        headers: { "Content-Type": "application/yaml" },
        body: byId("manifest").value,
      });
      const found = await response.json();
      const outcomes = [...found.pods, ...found.claims];
      chosen(chosenCards(outcomes));
      said.replaceChildren(...shown(found, outcomes, select));
    } catch (error) {
      chosen(new Set());
      said.replaceChildren(make("p", { class: "fault" }, name(error.message, "message")), faults(error.faults ?? []));
    } finally {
      button.disabled = false;
    }
  });
}

function shown(found, outcomes, select) {
  const count = `${found.placed} placed, ${found.waiting} ${found.waiting === 1 ? "waits" : "wait"}`;
  const head = outcomes.length
    ? `${counted(outcomes.length, "object")}: ${count}.`
    : "Nothing of it asks for devices of this driver.";
  return [
    make(
      "p",
      { class: "lead" },
      head,
      found.placed ? [" ", make("a", { href: "#fleet" }, "See the cards in the picture")] : "",
    ),
    ...outcomes.map((one) =>
      make(
        "section",
        { class: "outcome" },
        make("h3", {}, `${one.kind} `, name(`${one.namespace}/${one.name}`)),
        answer(one, select),
      ),
    ),
    ...notes(found.notes ?? []),
  ];
}

function faults(found) {
  return make(
    "ul",
    { class: "faults" },
    found.map((one) =>
      make(
        "li",
        {},
        make("strong", {}, name([one.object || `document ${one.document}`, one.field].filter(Boolean).join(" "))),
        ": ",
        name(one.message, "message"),
      ),
    ),
  );
}
