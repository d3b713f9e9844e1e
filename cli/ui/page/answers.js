// What `lode explain` and `lode simulate` answer, as elements: the reasons per group of nodes, down to the devices.

import { counted } from "./words.js";
import { link, make, name } from "./dom.js";
import { several } from "./tables.js";

const RESULTS = {
  placed: (one) =>
    one.node ? ["There is a place for it now, on node ", name(one.node), "."] : ["There is a place for it now."],
  allocated: (one) => (one.node ? ["It has its devices, on node ", name(one.node), "."] : ["It has its devices."]),
  others: () => ["It asks for no devices of this driver."],
  waiting: (one) => ["It waits: ", name(one.reason ?? ""), "."],
};

/** Return the answer about one object as elements. */
export function answer(one, select) {
  const parts = [];
  const known = RESULTS[one.result];
  if (known) parts.push(make("p", { class: `result ${one.result}` }, known(one)));
  const said = one.controller?.message && make("p", {}, name(one.controller.message, "message"));
  if (said) parts.push(one.reasons ? make("details", {}, make("summary", {}, "What the controller says"), said) : said);
  if (one.reasons) parts.push(...reasons(one.reasons, select));
  else if (one.result === "waiting") parts.push(make("p", {}, name(one.message ?? "", "message")));
  for (const lost of one.takenBack ?? [])
    parts.push(make("p", {}, "Taken back from node ", name(lost.node), ": ", name(lost.message, "message")));
  parts.push(devices(one.claims ?? [], select), victims(one.preemption), closures(one.closedBy ?? []), uuid(one));
  parts.push(...notes(one.notes ?? []));
  if (one.text)
    parts.push(
      make(
        "details",
        { class: "as-text" },
        make("summary", {}, "As text"),
        make("pre", { tabindex: 0 }, name(one.text, "raw")),
      ),
    );
  return parts.filter(Boolean);
}

/** Return what was assumed or is not known. */
export const notes = (texts) =>
  texts.length
    ? [
        make("h4", {}, "Notes"),
        make(
          "ul",
          { class: "notes" },
          texts.map((text) => make("li", {}, name(text, "message"))),
        ),
      ]
    : [];

/** Return the ids of the cards that outcomes would get. */
export function chosenCards(outcomes) {
  const found = new Set();
  for (const outcome of outcomes) {
    for (const claim of outcome.claims ?? []) {
      if (claim.state !== "pending") for (const device of claim.devices ?? []) found.add(cardId(device));
    }
  }
  return found;
}

const cardId = ({ pool, device }) =>
  `card/${pool.slice(0, pool.lastIndexOf("/"))}/${device.split("-").slice(0, 2).join("-")}`;

function devices(claims, select) {
  const rows = claims.flatMap((claim) =>
    (claim.devices?.length ? claim.devices : [null]).map((device) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, name(claim.name || claim.entry || "")),
        make("td", {}, device ? name(device.request) : ""),
        make(
          "td",
          {},
          device
            ? link(cardId(device), `${device.pool.slice(0, device.pool.lastIndexOf("/"))}/${device.device}`, select)
            : claim.state,
        ),
        make("td", {}, device ? consumed(device) : ""),
      ),
    ),
  );
  if (!claims.some((claim) => claim.devices?.length)) return null;
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      {},
      make("caption", {}, "Devices"),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ["Claim", "Request", "Device", "Takes"].map((text) => make("th", { scope: "col" }, text)),
        ),
      ),
      make("tbody", {}, rows),
    ),
  );
}

function consumed(device) {
  if (device.adminAccess) return "nothing (admin access)";
  return (
    Object.entries(device.consumedCapacity ?? {})
      .map(([key, value]) => `${key} ${value}`)
      .join(", ") || "all of it"
  );
}

function reasons(found, select) {
  const parts = [];
  for (const fault of found.faults ?? [])
    parts.push(
      make("p", {}, "Claim ", name(fault.claim), ", ", name(fault.field), ": ", name(fault.message, "message")),
    );
  if (found.groups?.length) {
    parts.push(
      make(
        "p",
        {},
        found.nodes === 1 ? "The only node cannot take it." : `None of ${counted(found.nodes, "node")} can take it.`,
      ),
    );
    parts.push(
      make(
        "ul",
        { class: "groups" },
        found.groups.map((group) => make("li", {}, groupOf(group, select))),
      ),
    );
  }
  const closest = found.closest;
  if (closest) {
    const free = closest.freeing?.length
      ? [
          "; it would do to end ",
          several(closest.freeing.map((key) => claimLink(key, select))),
          closest.on ? [" on node ", nodeLink(closest.on, select)] : "",
        ]
      : "";
    parts.push(
      make(
        "p",
        { class: "closest" },
        make("strong", {}, "Closest: "),
        several(closest.named.map((node) => nodeLink(node, select))),
        ` ${closest.named.length === 1 ? "has" : "have"} ${closest.fit} of ${closest.wanted}`,
        free,
      ),
    );
  }
  return parts;
}

const claimLink = (key, select) => link(`claim/${key}`, key, select);
const nodeLink = (node, select) => link(`node/${node}`, node, select);

function groupOf(group, select) {
  const rest = group.nodes - group.named.length;
  const head = make(
    "p",
    { class: "group" },
    make("strong", {}, counted(group.nodes, "node")),
    ": ",
    several(group.named.map((node) => nodeLink(node, select))),
    rest > 0 ? ` and ${rest.toLocaleString("en")} more` : "",
    group.summed ? " (sums)" : "",
  );
  const found = group.devices;
  const lines = [
    ...(group.predicates ?? []).map((text) => make("li", {}, name(text, "message"))),
    ...(found?.requests ?? []).map((request) => make("li", {}, requestOf(request, select))),
    ...(found?.together ?? []).map((one) =>
      make("li", {}, `Each fits alone, not together: ${one.count} `, name(one.text, "message")),
    ),
    ...(found?.pools ?? []).map((text) => make("li", {}, name(text, "message"))),
    ...(found?.undecided ? [make("li", {}, "The search was cut short; it may fit all the same.")] : []),
  ];
  return [head, make("ul", {}, lines)];
}

function requestOf(request, select) {
  const excluded = (request.excluded ?? []).map((one) => make("li", {}, `${one.count} `, name(one.text, "message")));
  const held = request.inUseBy ?? [];
  if (held.length) {
    const more = request.inUseByMore ? ` and ${request.inUseByMore} more` : "";
    excluded.push(make("li", {}, "held by ", several(held.map((key) => claimLink(key, select))), more));
  }
  if (request.freeing?.length)
    excluded.push(make("li", {}, "it would do to end ", several(request.freeing.map((key) => claimLink(key, select)))));
  return [
    "Claim ",
    name(request.claim),
    ", request ",
    name(request.request),
    `: wants ${request.wanted} of `,
    name(request.deviceClass),
    `, ${request.fit} of ${counted(request.devices, "device")} fit`,
    make("ul", {}, excluded),
  ];
}

function victims(preemption) {
  if (!preemption) return null;
  const some = preemption.victims ?? [];
  if (!some.length)
    return preemption.never
      ? make("p", {}, "Where preemption is on, nobody would go: ", name(preemption.never, "message"))
      : null;
  return make(
    "p",
    {},
    "Where preemption is on, these would go: ",
    several(some.map((one) => name(`${one.namespace}/${one.name}`))),
  );
}

function closures(found) {
  return found.length
    ? make(
        "ul",
        {},
        found.map((one) => make("li", {}, make("strong", {}, one.closure), ": ", name(one.message, "message"))),
      )
    : null;
}

const uuid = (one) => (one.kind === "Card" && one.uuid ? make("p", {}, "UUID ", name(one.uuid)) : null);
