// Elements from values. Texts are set as text only, so markup in a name is shown and never read.

/** Return an element; attributes of null and false are left out, and a function is a listener for the event. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Set the text if it is another one: a live region is read again after each change. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return a name as an element that keeps its direction to itself. Control characters are shown as their pictures. */
export const name = (text, className = "name") => make("bdi", { class: className }, printable(text));

/** Return the text with control characters, and those that turn or hide others, made visible. */
export function printable(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

/** Return a button that looks like a link and selects something. */
export function link(target, text, select) {
  return make(
    "button",
    { type: "button", class: "link", "data-target": target, click: () => select(target) },
    name(text),
  );
}
