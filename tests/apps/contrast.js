// The contrast of every text on a page, and of what its pictures draw, by the formulas of WCAG 2.2
// (relative luminance, 1.4.3 and 1.4.11), over whatever lies beneath: boxes, gradients, shapes of
// an SVG. {texts, shapes, found: what has too little}.
function contrasts(page, view) {
  const numbers = text => (text.match(/[\d.]+/g) || []).map(Number);
  const over = (top, below) => top.slice(0, 3).map((v, k) => v * top[3] + below[k] * (1 - top[3]));
  const colour = (text, opacity = 1) => {
    if (!text || text === "none" || !text.startsWith("rgb")) return null;
    const [r, g, b, a = 1] = numbers(text);
    return [r, g, b, a * opacity];
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(v => v / 255).map(v =>
      v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => {
    const [dark, bright] = [light(a), light(b)].sort((x, y) => x - y);
    return (bright + .05) / (dark + .05);
  };
  const opacity = e => {
    let all = 1;
    for (; e && e.nodeType == 1; e = e.parentElement) all *= +view.getComputedStyle(e).opacity;
    return all;
  };
  // What an element paints at a point, as layers from the top.
  const layers = e => {
    const style = view.getComputedStyle(e), seen = opacity(e);
    if (e.ownerSVGElement) {
      if (["text", "tspan", "line"].includes(e.tagName)) return [];
      const fill = colour(style.fill, seen * style.fillOpacity);
      return fill && e.getAttribute("fill") != "none" ? [fill] : [];
    }
    const out = [];
    for (const stop of style.backgroundImage.match(/rgba?\([^)]*\)/g) || [])
      out.push(colour(stop, seen));
    out.push(colour(style.backgroundColor, seen));
    return out.filter(c => c && c[3] > 0);
  };
  const beneath = (x, y, without, shape) => {
    const stack = page.elementsFromPoint(x, y).filter(e => e != shape);
    const at = stack.indexOf(without);
    const own = without && !without.ownerSVGElement ? 0 : 1;  // a text of HTML paints a box, too
    let below = [...colour(view.getComputedStyle(page.documentElement).backgroundColor) || []];
    if (!(below[3] > 0)) below = colour(view.getComputedStyle(page.body).backgroundColor);
    below = over(below, [255, 255, 255]);
    for (const e of stack.slice(at + own).reverse())
      for (const layer of layers(e).reverse()) below = over(layer, below);
    return below;
  };
  const found = new Map();
  const tell = (kind, e, front, back, least) => {
    const r = ratio(over(front, back), back);
    if (r >= least - .005) return;
    const name = `${kind} ${e.tagName} ${e.getAttribute("class") || ""} `
      + `${over(front, back).map(Math.round)} on ${back.map(Math.round)}: ${r.toFixed(2)}`;
    if (!found.has(name)) found.set(name, (e.textContent || e.outerHTML).trim().slice(0, 60));
  };
  const everywhere = page.createElement("style");
  everywhere.textContent = "*{pointer-events:auto!important}";
  page.head.append(everywhere);
  for (const closed of page.querySelectorAll("details")) closed.open = true;
  for (const guess of page.querySelectorAll(".guess div")) guess.firstChild.click();
  let texts = 0, shapes = 0;
  const probe = page.body.appendChild(page.createElement("i"));
  probe.style.color = "var(--line)";
  const guide = view.getComputedStyle(probe).color;
  probe.remove();
  for (const e of page.querySelectorAll("body *")) {
    if (!e.getClientRects().length) continue;
    const style = view.getComputedStyle(e);
    if (style.visibility == "hidden" || e.disabled) continue;
    const words = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
    const drawn = e.ownerSVGElement && e.matches("path,line,circle,rect,polyline,polygon,ellipse");
    if (!words && !drawn) continue;
    if (["SCRIPT", "STYLE", "OPTION"].includes(e.tagName) || e.tagName == "title") continue;
    const box = e.getBoundingClientRect();
    view.scrollTo(0, box.top + view.scrollY - view.innerHeight / 2);
    if (words) {
      const range = page.createRange();
      range.selectNodeContents(e);
      const size = parseFloat(style.fontSize) * (e.ownerSVGElement ? Math.abs(e.getScreenCTM().a) :
        1);
      const mark = e.getAttribute("aria-hidden") == "true";  // a piece of a curve, in a legend
      const least = mark || size >= 24 || (size >= 18.66 && +style.fontWeight >= 700) ? 3 : 4.5;
      const front = colour(e.ownerSVGElement ? style.fill : style.color, opacity(e));
      for (const part of [...range.getClientRects()].slice(0, 3)) {
        const x = part.left + part.width / 2, y = part.top + part.height / 2;
        if (!part.width || y < 0 || y > view.innerHeight || x < 0 || x > view.innerWidth) continue;
        ++texts;
        tell("text", e, front, beneath(x, y, e), least);
      }
      continue;
    }
    // A shape is seen by its line, or by its area. Those of a grid, and the ground of a picture,
    // only guide the eye; the shade of a cell is a number, which its title says, too.
    if (style.stroke == guide || e.matches(".box")) continue;
    if (e.tagName == "rect" && e.querySelector("title")) continue;
    const paint = [colour(style.stroke, opacity(e) * style.strokeOpacity)];
    if (e.tagName != "line") paint.push(colour(style.fill, opacity(e) * style.fillOpacity));
    for (let k = paint.length; k--;) if (!paint[k] || !(paint[k][3] > 0)) paint.splice(k, 1);
    if (!paint.length) continue;
    let x = box.left + box.width / 2, y = box.top + box.height / 2;
    if (e.getPointAtLength && e.getTotalLength()) {
      const on = e.getPointAtLength(e.getTotalLength() / 2).matrixTransform(e.getScreenCTM());
      [x, y] = [on.x, on.y];
    }
    const around = e.ownerSVGElement.getBoundingClientRect();
    const back = beneath(around.left + 1, Math.min(Math.max(around.top + 1, 1),
      view.innerHeight - 2), null, e);
    ++shapes;
    const best = paint.map(c => [ratio(over(c, back), back), c]).sort((a, b) => b[0] - a[0])[0][1];
    tell("shape", e, best, back, 3);
  }
  return {texts, shapes, found: [...found].map(([what, where]) => `${what} (${where})`)};
}
