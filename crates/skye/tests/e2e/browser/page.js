// Looks at the page as it is laid out now. Gives { complaints: [text], background: [red, green, blue], height }.
//
// options: width, the columns that were given to the page; print, whether it is laid out for paper, on which nothing
// scrolls; sections, ids that must be there; contrast, whether colours are looked at.
(options) => {
  const SLACK = 1; // Pixels: layout is in fractions, the properties of elements in whole ones.
  const SHRINK = 1.5; // What is wider than paper is printed smaller by browsers; more than this would not be legible.
  const RATIO = 4.5; // Least contrast of text, and of large text: WCAG 2.2, criterion 1.4.3.
  const RATIO_LARGE = 3;
  const LARGE = 24; // 18 points in pixels, and bold 14 points.
  const LARGE_BOLD = 18.66;
  const UNSEEN = new Set(["script", "style", "title", "desc", "metadata", "defs", "noscript", "template", "head", "symbol"]);
  const complaints = new Set();
  const root = document.documentElement;
  const isDrawing = root.localName === "svg";

  const name = (element) => {
    const id = element.id ? "#" + element.id : "";
    const classes = [...element.classList].map((one) => "." + one).join("");
    return `<${element.localName}${id}${classes}>`;
  };
  const quote = (node) => {
    const text = node.textContent.trim().replace(/\s+/g, " ");
    return "`" + (text.length > 40 ? text.slice(0, 40) + "…" : text) + "`";
  };
  const parent = (element) => element.parentElement ?? element.getRootNode().host ?? null;
  const chain = (element) => {
    const found = [];
    for (let one = element; one; one = parent(one)) found.push(one);
    return found;
  };

  // ---- What is there

  for (const id of options.sections) {
    const section = document.getElementById(id);
    if (!section) complaints.add(`there is no section #${id}`);
    else if (!section.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || section.getBoundingClientRect().height < 1)
      complaints.add(`section #${id} is not visible`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => complaints.add(`#${id} is there twice`));
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    const id = decodeURIComponent(link.getAttribute("href").slice(1));
    if (id && !document.getElementById(id)) complaints.add(`the link ${quote(link)} leads to #${id}, which is not there`);
  }
  if (!isDrawing) {
    if (!document.title.trim()) complaints.add("the page has no title");
    if (!root.lang) complaints.add("the page does not say its language");
    const viewport = document.querySelector("meta[name=viewport]")?.content ?? "";
    if (!viewport.includes("width=device-width")) complaints.add("a phone would lay the page out for 980 pixels: no viewport");
  }
  // What the browser would open or announce without a request that it tells of.
  for (const element of document.querySelectorAll("link[href], base[href], meta[http-equiv=refresh]"))
    if (!(element.getAttribute("href") ?? "").startsWith("data:")) complaints.add(`${name(element)} leads outside`);

  // ---- What can be seen

  const shown = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element || element.closest([...UNSEEN].join(","))) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    // What is for screen readers alone lies in a box of a pixel.
    const forEars = chain(element).some((one) => {
      const style = getComputedStyle(one);
      return style.position === "absolute" && style.overflowX !== "visible" && one.clientWidth <= 1 && one.clientHeight <= 1;
    });
    if (forEars) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
    if (boxes.length) shown.push({ node, element, boxes });
  }
  if (!shown.length) complaints.add("nothing can be read");

  // ---- Widths

  if (window.innerWidth !== options.width) complaints.add(`the page is laid out ${window.innerWidth} wide`);
  const wide = Math.max(root.scrollWidth, document.body?.scrollWidth ?? 0);
  const limit = options.width * (options.print ? SHRINK : 1);
  if (wide > limit) complaints.add(`the page scrolls sideways: ${wide} wide`);
  const cuts = (overflow) => overflow === "hidden" || overflow === "clip";
  const scrolls = (overflow) => overflow === "auto" || overflow === "scroll";
  for (const { node, element, boxes } of shown) {
    const drawing = element.closest("svg");
    let across = true; // Whether what lies further out would show what is cut here.
    let down = true;
    for (const one of chain(element)) {
      if (one === root || one === document.body || !across) break;
      // Parts of a drawing are cut by the drawing alone, an inline box by nothing.
      if (one instanceof SVGElement ? one.localName !== "svg" : getComputedStyle(one).display === "inline") continue;
      const style = getComputedStyle(one);
      const outer = one.getBoundingClientRect();
      const beyond = boxes.find((box) => box.left < outer.left - SLACK || box.right > outer.right + SLACK);
      const below = boxes.find((box) => box.top < outer.top - SLACK || box.bottom > outer.bottom + SLACK);
      if (one instanceof SVGElement) {
        if (beyond || below) complaints.add(`${quote(node)} lies outside of its drawing ${name(one)}`);
      } else {
        const hidesAcross = cuts(style.overflowX) || (options.print && scrolls(style.overflowX));
        const hidesDown = cuts(style.overflowY) || (options.print && scrolls(style.overflowY));
        if (hidesAcross && (beyond || (one === element && one.scrollWidth > one.clientWidth + SLACK)))
          complaints.add(`${quote(node)} is cut off at the side of ${name(one)}`);
        if (hidesDown && down && (below || (one === element && one.scrollHeight > one.clientHeight + SLACK)))
          complaints.add(`${quote(node)} is cut off at the bottom of ${name(one)}`);
        if (scrolls(style.overflowX) && !options.print) across = false;
        if (scrolls(style.overflowY) && !options.print) down = false;
      }
    }
    const outside = boxes.find((box) => box.left + scrollX < -SLACK || box.right + scrollX > limit + SLACK);
    if (across && outside && !isDrawing) complaints.add(`${quote(node)} of ${name(drawing ?? element)} lies outside of the page`);
  }
  // Labels of a drawing over each other.
  const labels = shown.filter(({ element }) => element instanceof SVGElement);
  labels.forEach((one, at) =>
    labels.slice(at + 1).forEach((other) => {
      if (one.node.data === other.node.data || one.element.closest("svg") !== other.element.closest("svg")) return;
      const [a, b] = [one.boxes[0], other.boxes[0]];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      // Boxes hold the room between lines, too.
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 0.4 * Math.min(a.height, b.height)) complaints.add(`${quote(one.node)} and ${quote(other.node)} lie over each other`);
    }),
  );

  // ---- Colours

  const context = Object.assign(document.createElementNS("http://www.w3.org/1999/xhtml", "canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  // Any colour that styles know, as [red, green, blue, alpha].
  const colour = (text) => {
    if (!known.has(text)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = "#000";
      context.fillStyle = text;
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
      known.set(text, [red, green, blue, alpha / 255]);
    }
    return known.get(text);
  };
  const over = (top, alpha, below) => below.map((value, at) => alpha * top[at] + (1 - alpha) * value);
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const isDark = options.dark && /dark/.test(getComputedStyle(root).colorScheme);
  const canvas = isDark ? [18, 18, 18] : [255, 255, 255];
  const opacity = (element) => chain(element).reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
  // What an element paints behind its content: one colour, or several where it is a gradient.
  const paints = (element) => {
    const style = getComputedStyle(element);
    if (element instanceof SVGElement && element.localName !== "svg") {
      if (["text", "tspan", "textPath", "g", "a", "use"].includes(element.localName) || style.fill === "none") return null;
      if (style.fill.startsWith("url")) return null;
      const [red, green, blue, alpha] = colour(style.fill);
      return { colours: [[red, green, blue]], alpha: alpha * Number(style.fillOpacity) * opacity(element) };
    }
    const stops = style.backgroundImage.match(/(?:rgba?|color|oklch|oklab|lab|lch|hsla?)\([^()]*\)|#[0-9a-f]+/gi);
    const layers = stops ?? [style.backgroundColor];
    const colours = layers.map(colour);
    return { colours: colours.map((one) => one.slice(0, 3)), alpha: Math.max(...colours.map((one) => one[3])) * opacity(element) };
  };
  // All backgrounds that may be seen at a point beneath an element.
  const beneath = (element, x, y) => {
    const stack = document.elementsFromPoint(x, y);
    const at = stack.indexOf(element);
    // What scrolled out of sight lies on its ancestors.
    const layers = at < 0 ? chain(element) : stack.slice(at);
    // The background of the body reaches beyond it where the root has none.
    if (document.body) layers.push(document.body);
    const fronts = [];
    for (const layer of layers) {
      const paint = paints(layer);
      if (!paint || paint.alpha === 0) continue;
      fronts.push(paint);
      if (paint.alpha > 0.999) break;
    }
    let seen = [canvas];
    for (const { colours, alpha } of fronts.reverse())
      seen = seen.flatMap((below) => colours.map((top) => over(top, alpha, below))).slice(0, 16);
    return seen;
  };
  // A style of our own, not of the page, so that what ignores the pointer is found all the same.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { pointer-events: auto !important }");
  document.adoptedStyleSheets = [sheet];
  for (const { node, element, boxes } of options.contrast ? shown : []) {
    const style = getComputedStyle(element);
    const isLabel = element instanceof SVGElement;
    const paint = isLabel ? (style.fill === "none" ? style.stroke : style.fill) : style.webkitTextFillColor;
    const scale = isLabel ? Math.abs(element.getScreenCTM()?.a ?? 1) : 1;
    const size = parseFloat(style.fontSize) * scale;
    const asked = size >= LARGE || (size >= LARGE_BOLD && Number(style.fontWeight) >= 700) ? RATIO_LARGE : RATIO;
    if (paint.startsWith("url")) {
      complaints.add(`the contrast of ${quote(node)} cannot be told: it is painted with ${paint}`);
      continue;
    }
    const ink = colour(paint);
    const alpha = ink[3] * opacity(element) * (isLabel ? Number(style.fillOpacity) : 1);
    let worst = Infinity;
    let where = "";
    for (const box of boxes.slice(0, 8)) {
      const middle = (box.top + box.bottom) / 2;
      for (const x of [box.left + 1, (box.left + box.right) / 2, box.right - 1])
        for (const below of beneath(element, x, middle)) {
          const text = over(ink.slice(0, 3), alpha, below);
          const ratio = contrast(text, below);
          if (ratio < worst) {
            worst = ratio;
            where = `rgb(${text.map(Math.round)}) on rgb(${below.map(Math.round)})`;
          }
        }
    }
    // As it is shown: 4.499 is told as 4.50, and is enough.
    if (Math.round(worst * 100) / 100 < asked) complaints.add(`${quote(node)} of ${name(element)} has a contrast of ${worst.toFixed(2)}, below ${asked}: ${where}`);
  }
  const corner = document.elementsFromPoint(1, 1)[0] ?? root;
  const background = beneath(corner, 1, 1)[0];
  document.adoptedStyleSheets = [];
  return { complaints: [...complaints], background, height: Math.ceil(Math.max(root.scrollHeight, root.getBoundingClientRect().height)) };
}
