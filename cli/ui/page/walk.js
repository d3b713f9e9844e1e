// The keyboard in the picture: one stop of the tab key, and from there arrows from card to card.
//
// Left and right go through a node and on to the next one. Up and down go to what is seen above and below. Home and End
// go to the ends of the node, with Ctrl to those of the picture; page up and down go from fabric to fabric.

const STEPS = {
  ArrowLeft: (at) => neighbour(at, -1),
  ArrowRight: (at) => neighbour(at, 1),
  ArrowUp: (at) => across(at, -1),
  ArrowDown: (at) => across(at, 1),
  Home: (at, control, root) =>
    control ? visible(root, ".node")[0]?.firstElementChild : at.parentElement.firstElementChild,
  End: (at, control, root) =>
    control ? visible(root, ".node").at(-1)?.lastElementChild : at.parentElement.lastElementChild,
  PageUp: (at) => fabric(at, -1),
  PageDown: (at) => fabric(at, 1),
};

/**
 * Let the keyboard walk the picture.
 *
 * @param open gets what is chosen, its cell, and whether it was the pointer.
 * @param reached gets what has the focus.
 */
export function walk(root, open, reached) {
  let stop = null;
  const cellOf = (target) => target.closest?.(".card, .node-name");

  root.addEventListener("keydown", (event) => {
    const at = cellOf(event.target);
    if (!at || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(at.thing, at, false);
      return;
    }
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const to = step(at, event.ctrlKey, root);
    if (to) to.focus();
  });
  root.addEventListener("click", (event) => {
    const at = cellOf(event.target);
    if (at) {
      at.focus({ preventScroll: true });
      open(at.thing, at, true);
    }
  });
  root.addEventListener("focusin", (event) => {
    const at = cellOf(event.target);
    if (at) {
      stopAt(at);
      reached(at.thing);
    }
  });
  for (const event of ["mouseover", "mouseout"]) {
    root.addEventListener(event, ({ target }) => reached((event === "mouseover" && cellOf(target)?.thing) || null));
  }

  function stopAt(cell) {
    if (stop) stop.tabIndex = -1;
    stop = cell;
    if (stop) stop.tabIndex = 0;
  }

  /** Have a stop of the tab key that is there, after the picture has changed. */
  return () => {
    if (!stop?.isConnected || stop.closest("[hidden]")) stopAt(visible(root, ".node")[0]?.firstElementChild ?? null);
  };
}

const visible = (root, selector) => [...root.querySelectorAll(selector)].filter((one) => !one.closest("[hidden]"));

function sibling(element, by) {
  let found = element;
  do found = by > 0 ? found.nextElementSibling : found.previousElementSibling;
  while (found?.hidden);
  return found;
}

/** The cell before or behind, also in another node or fabric. */
function neighbour(at, by) {
  const next = by > 0 ? at.nextElementSibling : at.previousElementSibling;
  if (next) return next;
  const node = nodeBeside(at.parentElement, by);
  return by > 0 ? node?.firstElementChild : node?.lastElementChild;
}

function nodeBeside(node, by) {
  const beside = sibling(node, by);
  if (beside) return beside;
  const section = sibling(node.closest(".fabric"), by);
  const nodes = section ? visible(section, ".node") : [];
  return by > 0 ? nodes[0] : nodes.at(-1);
}

/** The cell that is seen nearest above or below. */
function across(at, by) {
  const from = at.getBoundingClientRect();
  const middle = (from.left + from.right) / 2;
  const beyond = (rect) => (by > 0 ? rect.top >= from.bottom - 1 : rect.bottom <= from.top + 1);
  let best = null;
  let edge = null;
  for (let node = at.parentElement; node; node = nodeBeside(node, by)) {
    const rect = node.getBoundingClientRect();
    if (edge !== null && (by > 0 ? rect.top > edge : rect.bottom < edge)) break;
    for (const cell of node.children) {
      const place = cell.getBoundingClientRect();
      if (!beyond(place)) continue;
      const off = Math.abs((place.left + place.right) / 2 - middle) + 1000 * Math.abs(place.top - from.top);
      if (!best || off < best.off) best = { off, cell };
    }
    if (best && edge === null)
      edge = by > 0 ? best.cell.getBoundingClientRect().bottom : best.cell.getBoundingClientRect().top;
  }
  return best?.cell ?? null;
}

function fabric(at, by) {
  const section = sibling(at.closest(".fabric"), by);
  return section ? visible(section, ".node")[0]?.firstElementChild : null;
}
