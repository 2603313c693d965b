// What the sections of the lesson share: elements, stages (pictures that can be dragged), controls,
// numbers, questions, axes.
"use strict";
// All that the page says: words.json. A long text is a list of lines there, as no other list but
// `options` is. {name} in a text stands for a value.
const words = JSON.parse(document.getElementById("words").textContent, (name, value) =>
    Array.isArray(value) && name !== "options" ? value.join(" ") : value);
const shared = words.shared;
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
// What the engine's errors are, by their short names; the browser's own have none.
const whyOf = (error, values) => fill(shared.errors[error.message] ?? error.message, values);
const make = (tag, attributes = {}, ...children) => {
  const svg = ["svg", "g", "line", "circle", "path", "rect", "text", "polyline"].includes(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
};
// A text as parts of an element: `code`, *stressed*.
const prose = text => text.split(/(`[^`]+`|\*[^*]+\*)/).map(part =>
    part.startsWith("`") ? make("code", {}, part.slice(1, -1)) :
    part.startsWith("*") ? make("em", {}, part.slice(1, -1)) : part);
const colour = k => `var(--c${k % 6})`;
// Curves differ by dashes too, for those to whom two colours look alike.
const dashes = ["none", "9 4", "2 4", "9 3 2 3", "5 3", "14 4"];
const dashOf = of => {
  const k = /^var\(--c(\d)\)$/.exec(of);
  return k ? dashes[k[1]] : "none";
};

// "0.0567", "13.137", "2.3e-16": so many significant digits
const shown = (v, digits = 4) => {
  if (v === null || v === undefined || Number.isNaN(v)) return shared.unknown;
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size < 1e-4 || size >= 1e6) return v.toExponential(Math.min(digits - 1, 2));
  return String(Number(v.toPrecision(digits)));
};

// A picture that is as wide as the page and drawn anew when that changes. draw(svg, width, height)
// fills an empty svg. What can be dragged is put into stage.handles = [{key, x, y, label,
// value, range, unit, move(x, y), press(), step(dx, dy)}]: move by the pointer, press by a tap or
// Enter, step by arrow keys. value: what is told of it, a number, with the two between which it can
// be and a word that follows it, or the two of a point. The picture can be saved,
// and what axes().line drew; a table behind it has the same numbers.
class Stage {
  constructor(root, height, draw, label) {
    this.height = height;
    this.draw = draw;
    this.handles = [];
    this.box = make("div", {class: "stage"});
    this.svg = make("svg", {role: "group", "aria-label": label});
    this.box.append(this.svg);
    this.saving = ["svg", "png", "csv"].map(kind => make("button", {type: "button",
        "aria-label": fill(shared.saveAs, {kind, picture: label}),
        onclick: () => save(this, kind)}, kind));
    this.below = make("div", {class: "save"}, shared.save, ...this.saving);
    root.append(this.box, this.below);
    this.table = make("table", {});
    this.behind = make("details", {class: "behind"},
                       make("summary", {}, fill(shared.numbersOf, {picture: label})), this.table);
    this.behind.addEventListener("toggle", () => this.tell());
    root.append(this.behind);
    this.svg.addEventListener("pointerdown", e => this.down(e));
    this.svg.addEventListener("pointermove", e => this.held && this.moved(e));
    for (const end of ["pointerup", "pointercancel"])
      this.svg.addEventListener(end, e => this.up(e));
    this.svg.addEventListener("keydown", e => this.key(e));
    addEventListener("resize", () => {
      if (this.box.clientWidth !== this.drawnAt) this.redraw();
    });
  }
  redraw() {
    const focused = document.activeElement && document.activeElement.dataset &&
        this.svg.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.drawnAt = this.box.clientWidth;
    const width = Math.max(200, this.drawnAt - 12);
    const height = typeof this.height === "function" ? this.height(width) : this.height;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = `${height}px`;
    this.svg.replaceChildren();
    this.handles = [];
    this.svg.curves = [];
    this.draw(this.svg, width, height);
    this.svg.classList.toggle("drag", this.handles.some(h => h.move));
    for (const h of this.handles) {
      const place = Array.isArray(h.value) ? h.value.map(v => shown(v, 2)).join(", ") : "";
      const spot = make("circle", {cx: h.x, cy: h.y, r: h.radius || 12, fill: "transparent",
                                   class: "handle", tabindex: 0, "data-key": h.key,
                                   "aria-label": place ? `${h.label}: ${place}` : h.label,
                                   ...(typeof h.value === "number" ?
                                       {role: "slider", "aria-valuenow": shown(h.value),
                                        "aria-valuemin": shown(h.range[0]),
                                        "aria-valuemax": shown(h.range[1]),
                                        "aria-valuetext": `${shown(h.value)} ${h.unit}`} :
                                       {role: "button"})});
      this.svg.append(spot);
      if (h.key === focused) spot.focus();
    }
    this.tell();
  }
  // A picture with nothing to show here.
  hide(yes) {
    for (const part of [this.box, this.below, this.behind])
      part.style.display = yes ? "none" : "";
  }
  // Fills the table, if it is open: some points of each curve.
  tell() {
    this.behind.hidden = this.saving[2].hidden = this.svg.curves.length === 0;
    if (!this.behind.open || this.behind.hidden) return;
    const row = (kind, cells) => make("tr", {}, ...cells.map(c => make(kind, {}, c)));
    this.table.replaceChildren(row("th", [shared.curve, "x", "y"]),
        ...this.svg.curves.flatMap(({xs, ys}, c) => {
      const every = Math.ceil(xs.length / 20);
      return [...xs.keys()].filter(k => k % every === 0 || k === xs.length - 1).map(k =>
          row("td", [String(c + 1), shown(xs[k], 3), shown(ys[k], 3)]));
    }));
  }
  point(e) {
    const box = this.svg.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }
  down(e) {
    const [x, y] = this.point(e);
    const far = h => Math.hypot(h.x - x, h.y - y);
    const nearest = this.handles.reduce((a, b) => a && far(a) <= far(b) ? a : b, null);
    if (!nearest || far(nearest) > 30) return;
    this.held = {key: nearest.key, from: [x, y], moved: false};
    try { this.svg.setPointerCapture(e.pointerId); } catch { /* made by a test */ }
    e.preventDefault();
  }
  moved(e) {
    const [x, y] = this.point(e), h = this.handles.find(each => each.key === this.held.key);
    if (Math.hypot(x - this.held.from[0], y - this.held.from[1]) > 4) this.held.moved = true;
    if (h && h.move && this.held.moved) h.move(x, y);
  }
  up() {
    if (!this.held) return;
    const h = this.handles.find(each => each.key === this.held.key), moved = this.held.moved;
    this.held = null;
    if (h && h.press && !moved) h.press();
  }
  key(e) {
    const h = this.handles.find(each => each.key === e.target.dataset.key);
    if (!h) return;
    const arrow = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};
    if (h.step && arrow[e.key]) h.step(...arrow[e.key]), e.preventDefault();
    if (h.press && (e.key === "Enter" || e.key === " ")) h.press(), e.preventDefault();
  }
}

// --- saving: a picture with the colours and letters that it has here; the curves as lines
// "curve, x, y"

const drawnAs = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family",
                 "font-size", "font-weight", "paint-order", "stroke-linejoin"];
function pictureOf(stage) {
  const copy = stage.svg.cloneNode(true), [, , width, height] =
      stage.svg.getAttribute("viewBox").split(" ");
  const copies = [...copy.querySelectorAll("*")];
  [...stage.svg.querySelectorAll("*")].forEach((e, k) => {
    const style = getComputedStyle(e);
    for (const name of drawnAs) copies[k].setAttribute(name, style.getPropertyValue(name));
    copies[k].removeAttribute("style");
  });
  for (const handle of copy.querySelectorAll(".handle")) handle.remove();
  const paper = getComputedStyle(document.body).backgroundColor;
  copy.prepend(make("rect", {width, height, fill: paper}));
  for (const [name, value] of Object.entries({xmlns: "http://www.w3.org/2000/svg", width, height}))
    copy.setAttribute(name, value);
  return {text: new XMLSerializer().serializeToString(copy), width: +width, height: +height};
}
const curvesOf = stage => ["curve,x,y", ...stage.svg.curves.flatMap(({xs, ys}, c) =>
    xs.map((x, k) => `${c + 1},${x},${ys[k]}`))].join("\n") + "\n";
async function save(stage, kind) {
  const as = (type, text) => `data:${type};charset=utf-8,${encodeURIComponent(text)}`;
  const section = stage.box.closest("[id]"), picture = pictureOf(stage);
  let href = kind === "csv" ? as("text/csv", curvesOf(stage)) : as("image/svg+xml", picture.text);
  if (kind === "png") {
    const image = new Image();
    image.src = href;
    await image.decode();
    const canvas = make("canvas", {width: 2 * picture.width, height: 2 * picture.height});
    const pen = canvas.getContext("2d");
    pen.scale(2, 2);
    pen.drawImage(image, 0, 0);
    href = canvas.toDataURL("image/png");
  }
  make("a", {href, download: `${section ? section.id : "picture"}.${kind}`}).click();
}

// --- controls: each calls `changed` with its new value

const controls = root => {
  const box = make("div", {class: "controls"});
  root.append(box);
  const labelled = (text, input, output) => {
    box.append(make("label", {}, text, ...(output ? [output] : []), input));
    return input;
  };
  return {
    box,
    slider(text, {min, max, step = 1, value, show = String}, changed) {
      const output = make("output", {});
      const input = make("input", {type: "range", min, max, step, value});
      const tell = () => {  // what is told of it is what is shown, with its unit
        output.textContent = show(+input.value);
        input.setAttribute("aria-valuetext", output.textContent);
      };
      tell();
      input.addEventListener("input", () => {
        tell();
        changed(+input.value);
      });
      input.put = v => { input.value = v; tell(); };
      return labelled(text, input, output);
    },
    choice(text, options, value, changed) {
      const select = make("select", {}, ...options.map(([name, shownAs]) =>
          make("option", {value: name, selected: name === value}, shownAs)));
      select.addEventListener("change", () => changed(select.value));
      return labelled(text, select);
    },
    button(text, pressed) {
      const b = make("button", {type: "button", onclick: pressed}, text);
      box.append(b);
      return b;
    }
  };
};

// Numbers below a picture: set({name: text}).
const numbers = root => {
  const box = make("div", {class: "numbers", "aria-live": "polite"});
  root.append(box);
  return {
    set(values) {
      box.replaceChildren(...Object.entries(values).map(([name, value]) =>
          make("div", {}, make("b", {}, typeof value === "number" ? shown(value) : value), name)));
    }
  };
};

// A question to guess first, with the place of the right option, and what to say then.
const guess = (root, {question, options, because}, right) => {
  const answer = make("span", {class: "answer", role: "status"});
  const buttons = options.map((text, k) => make("button", {type: "button", "aria-pressed": "false",
    onclick: () => {
      buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === k)));
      const judged = k === right ? shared.yes : fill(shared.no, {right: options[right]});
      answer.textContent = `${judged} ${because}`;
    }}, text));
  root.append(make("div", {class: "guess"},
                   make("p", {}, make("b", {}, shared.guessFirst), " ", question),
                   make("div", {}, ...buttons), answer));
};
// What to try, and how to check it with the program.
const check = (root, text) => root.append(make("p", {class: "check"}, ...prose(text)));
// What a picture draws: its name, its colour, and the dashes of a line or another mark.
const marks = {
  bar: of => make("rect", {width: 34, height: 12, rx: 2, fill: of}),
  dot: of => make("circle", {cx: 7, cy: 6, r: 5, fill: of}),
  ring: of => make("circle", {cx: 7, cy: 6, r: 5, fill: "none", stroke: of, "stroke-width": 2}),
  cross: of => make("path", {d: "M2 1l10 10M12 1l-10 10", stroke: of, "stroke-width": 3}),
  upright: of => make("line", {x1: 7, x2: 7, y1: 0, y2: 12, stroke: of, "stroke-width": 2})
};
const key = (root, names) => root.append(make("div", {class: "key"}, ...names.map(
    ([name, of, mark = dashOf(of)]) => make("span", {},
        make("svg", {width: marks[mark] && mark !== "bar" ? 14 : 34, height: 12,
                     "aria-hidden": "true"}, marks[mark] ? marks[mark](of) :
             make("line", {x1: 0, x2: 34, y1: 6, y2: 6, stroke: of, "stroke-width": 4,
                           "stroke-dasharray": mark})), name))));

// --- axes: maps values to pixels and draws ticks; y may be logarithmic

const roundStep = (range, most) => {
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find(f => f * power >= rough * .999) || 10);
};
function axes(svg, width, height, {x: [x0, x1], y: [y0, y1], logX, logY, xName, yName}) {
  const left = 46, right = 12, top = 26, bottom = 40;  // what is dragged along x lies on its axis
  const across = (v, a, b, log) => log ? Math.log(v / a) / Math.log(b / a) : (v - a) / (b - a);
  const px = v => left + (width - left - right) * across(v, x0, x1, logX);
  const py = v => height - bottom - (height - top - bottom) * across(v, y0, y1, logY);
  const ticks = (a, b, log, most) => {
    const out = [];
    if (log) {
      const each = Math.max(1, Math.ceil(Math.log10(b / a) / most));
      for (let p = Math.ceil(Math.log10(a) - 1e-9); p <= Math.log10(b) + 1e-9; p += each)
        out.push(10 ** p);
    } else {
      const step = roundStep(b - a, most);
      for (let k = Math.ceil(a / step - 1e-9); k * step <= b + 1e-9 * step; ++k) out.push(k * step);
    }
    return out;
  };
  const text = (v, log) => log && (v < .01 || v > 9999) ? `1e${Math.round(Math.log10(v))}`
                                                        : String(Number(v.toPrecision(3)));
  for (const v of ticks(x0, x1, logX, Math.max(3, width / 90))) {
    svg.append(make("line", {x1: px(v), x2: px(v), y1: top, y2: height - bottom,
                             stroke: "var(--line)"}),
               make("text", {x: px(v), y: height - bottom + 20, "text-anchor": "middle"},
                    text(v, logX)));
  }
  for (const v of ticks(y0, y1, logY, Math.max(3, height / 45))) {
    svg.append(make("line", {x1: left, x2: width - right, y1: py(v), y2: py(v),
                             stroke: "var(--line)"}),
               make("text", {x: left - 5, y: py(v) + 4, "text-anchor": "end"}, text(v, logY)));
  }
  svg.append(make("text", {x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle"},
                  xName || ""),
             make("text", {x: 4, y: 12}, yName || ""));
  // values outside are cut off at the edges
  const inside = v => Math.min(Math.max(v, top - 2), height - bottom + 2);
  const back = {
    x: p => logX ? x0 * (x1 / x0) ** ((p - left) / (width - left - right))
                 : x0 + (x1 - x0) * (p - left) / (width - left - right),
    y: p => y0 + (y1 - y0) * (height - bottom - p) / (height - top - bottom)
  };
  const line = (xs, ys, attributes) => {
    const points = [];
    xs.forEach((x, k) => {
      const good = Number.isFinite(ys[k]) && (!logY || ys[k] > 0);
      if (good) points.push(`${px(x).toFixed(1)},${inside(py(ys[k])).toFixed(1)}`);
    });
    const l = make("polyline", {points: points.join(" "), fill: "none", "stroke-width": 2,
                                "stroke-linejoin": "round",
                                "stroke-dasharray": dashOf(attributes.stroke), ...attributes});
    svg.append(l);
    svg.curves.push({xs, ys});
    return l;
  };
  return {px, py, back, line, left, right: width - right, top, bottom: height - bottom};
}

// The places of workers on a circle.
const onCircle = (n, cx, cy, r) => Array.from({length: n}, (_, i) => {
  const angle = 2 * Math.PI * i / n - Math.PI / 2;
  return [cx + r * Math.cos(angle), cy + r * Math.sin(angle)];
});
const disc = (svg, x, y, r, fill, label) => {
  svg.append(make("circle", {cx: x, cy: y, r, fill}));
  if (label !== undefined)
    svg.append(make("text", {x, y: y + 4, "text-anchor": "middle", class: "strong",
                             style: "fill:var(--paper);stroke:none"}, label));
};
