// Returns the texts of the page with less contrast than WCAG's level AA asks for (4.5, large ones 3), and the signs of
// cards whose border has less than 3 against what is around them.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility() || element.closest(".unseen, .skips, :disabled, script, noscript, option, datalist")) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const has = ratio(over(rgba(style.color), under), under);
    if (has < enough) found.add(`${walker.currentNode.textContent.trim().slice(0, 40)}: ${has.toFixed(2)}`);
  }
  for (const [selector, pseudo] of [[".sign", null], [".card:not(.other)", "::before"], ["input, select, textarea", null]]) {
    for (const element of document.querySelectorAll(selector)) {
      if (!element.checkVisibility()) continue;
      const has = ratio(rgba(getComputedStyle(element, pseudo).borderTopColor), ground(pseudo ? element : element.parentElement));
      if (has < 3) found.add(`${selector} ${element.dataset.state ?? element.id}: ${has.toFixed(2)}`);
    }
  }
  return [...found];
}
