// Stands at the end of the lesson in tests/apps/lesson_test.cpp: uses every section as a hand would
// and writes what came of it into <pre id="found">.
"use strict";
{
  const found = {sections: {}, files: {}, constants: {}};
  const pictures = root => [...root.querySelectorAll("svg")].map(s => s.innerHTML).join();
  const texts = root => [...root.querySelectorAll(".numbers, [role=status]")].map(
      e => e.textContent).join(" ");
  const all = root => pictures(root) + texts(root);
  // how often the section looks different after each of these
  const changes = (root, things, use) => things.filter(thing => {
    const before = all(root);
    use(thing);
    return all(root) !== before;
  }).length;
  const numbersOf = root => Object.fromEntries([...root.querySelectorAll(".numbers div")].map(
      e => [e.lastChild.textContent, e.firstChild.textContent]));
  const pointer = (svg, type, x, y) => svg.dispatchEvent(new PointerEvent(type,
      {clientX: x, clientY: y, pointerId: 1, bubbles: true, cancelable: true}));
  const handleOf = ([section, key]) =>
      document.querySelector(`#${section} .handle[data-key="${key}"]`);
  const placeOf = handle => {
    const svg = handle.ownerSVGElement, box = svg.getBoundingClientRect();
    return [svg, box.left + +handle.getAttribute("cx"), box.top + +handle.getAttribute("cy")];
  };
  const drag = key => {
    const [svg, x, y] = placeOf(handleOf(key));
    pointer(svg, "pointerdown", x, y);
    pointer(svg, "pointermove", x - 20, y - 12);
    pointer(svg, "pointermove", x - 90, y - 24);
    pointer(svg, "pointerup", x - 90, y - 24);
  };
  const tap = key => {
    const [svg, x, y] = placeOf(handleOf(key));
    for (const type of ["pointerdown", "pointerup"]) pointer(svg, type, x, y);
  };
  const press = (key, name) => handleOf(key).dispatchEvent(
      new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
  const keysOf = root => [...root.querySelectorAll(".handle")].map(
      h => [root.id, h.dataset.key]).slice(0, 8);
  const slide = (input, value) => {
    input.value = value;
    input.dispatchEvent(new Event("input", {bubbles: true}));
  };

  for (const root of document.querySelectorAll("section")) {
    const report = {before: numbersOf(root)};
    const options = [...root.querySelectorAll(".guess button")];
    report.guesses = options.map(b => {
      b.click();
      return root.querySelector(".guess .answer").textContent;
    });
    report.handles = keysOf(root).length;
    report.dragged = changes(root, keysOf(root), drag) + changes(root, keysOf(root), tap);
    report.keyed = changes(root, keysOf(root), key => {
      press(key, "ArrowLeft");
      press(key, "Enter");
    });
    const sliders = [...root.querySelectorAll("input[type=range]")];
    report.sliders = sliders.length;
    report.slid = changes(root, sliders, s => {
      const old = s.value;
      slide(s, s.min);
      if (old === s.min) slide(s, s.max);
    });
    for (const s of sliders) slide(s, s.defaultValue);
    const choices = [...root.querySelectorAll("select")].flatMap(
        s => [...s.options].slice(1).map(o => [s, o.value]));
    report.choices = choices.length;
    report.chosen = changes(root, choices, ([select, value]) => {
      select.value = value;
      select.dispatchEvent(new Event("change"));
    });
    report.pressed = changes(root, [...root.querySelectorAll(".controls button")], b => b.click());
    const saved = [], click = HTMLAnchorElement.prototype.click;
    HTMLAnchorElement.prototype.click = function() { saved.push(decodeURIComponent(this.href)); };
    for (const kind of ["svg", "csv"])
      root.querySelectorAll(`[aria-label^="save as ${kind}"]`).forEach(b => b.click());
    HTMLAnchorElement.prototype.click = click;
    report.figures = root.querySelectorAll(".stage").length;
    report.svg = saved.filter(s => s.startsWith("data:image/svg+xml") && !s.includes("var(") &&
                                   s.endsWith("</svg>")).length;
    report.csv = saved.filter(s => s.startsWith("data:text/csv") && s.includes("curve,x,y")).length;
    report.points = Math.max(...saved.map(s => s.split("\n").length));
    // What can be dragged to a number says which, with its limits, in words too; and so do sliders.
    report.nameless = [...root.querySelectorAll(".handle[role=slider]")].filter(h => {
      const [least, now, most] = ["min", "now", "max"].map(of =>
          parseFloat(h.getAttribute(`aria-value${of}`)));
      const said = h.getAttribute("aria-valuetext");
      return !h.getAttribute("aria-label") || !(least <= now && now <= most) ||
          !/^\S+ \S/.test(said) || said.includes("undefined");
    }).length + sliders.filter(s =>
        s.getAttribute("aria-valuetext") !== s.closest("label").querySelector("output").textContent
    ).length;
    // a table behind each picture that has curves
    const stages = [...root.querySelectorAll(".stage")];
    const behind = [...root.querySelectorAll("details.behind")];
    report.behind = behind.length === stages.length && stages.every((s, k) => {
      const curves = s.querySelector("svg").curves;
      behind[k].open = true;
      behind[k].dispatchEvent(new Event("toggle"));
      const rows = [...behind[k].querySelectorAll("tr")].slice(1);
      behind[k].open = false;
      return behind[k].hidden === (curves.length === 0) &&
          new Set(rows.map(r => r.firstChild.textContent)).size ===
          curves.filter(c => c.xs.length).length;
    });
    // curves of one picture differ in dashes or colour is not all that tells them apart
    report.alike = stages.reduce((sum, s) => {
      const lines = [...s.querySelectorAll("polyline")];
      const looks = new Map();
      for (const l of lines) {
        const dash = l.getAttribute("stroke-dasharray"), stroke = l.getAttribute("stroke");
        if (!looks.has(dash)) looks.set(dash, new Set());
        looks.get(dash).add(stroke);
      }
      return sum + [...looks.values()].filter(strokes => strokes.size > 1).length;
    }, 0);
    // the address holds the state: what it names comes back
    const link = root.querySelector(".link a"), first = sliders[0] || root.querySelector("select");
    report.link = "none";
    if (first && first !== document.querySelector("#own input[type=range]")) {
      const wanted = first.tagName === "SELECT" ? first.options[1].value
                                                : first.value === first.max ? first.min : first.max;
      const event = () => first.dispatchEvent(
          new Event(first.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
      const before = first.value;
      first.value = wanted, event();
      const address = link.getAttribute("href");
      first.value = before, event();
      goTo(address);
      report.link = address.startsWith(`#${root.id}?`) && first.value === wanted ? "comes back"
                                                                                 : address;
    }
    report.unreadable = /NaN|undefined|Infinity/.test(all(root));
    found.sections[root.id] = report;
  }

  // The engine against the program's files.
  for (const file of document.querySelectorAll("script.events")) {
    const {head, events, difference} = Engine.replay(file.textContent);
    const report = found.files[file.id] = {events: events.length, difference};
    if (!Engine.matchings || !["poisson", "matching"].includes(head.pairing)) continue;
    // The same run from its seed alone.
    const own = [], simulation = new Engine.Simulation({
      graph: {n: head.workers, edges: head.edges.map(([a, b, rate]) => ({a, b, rate}))},
      method: head.method, pairing: head.pairing, seed: head.seed, dims: head.dims,
      problem: head.mode === "quadratic" ? Engine.quadratic(head.workers,
          {dims: head.dims, seed: head.seed}) : undefined,
      onEvent: e => own.push([e.t, e.i, e.j, Array.from(simulation.workers[e.i].x)])});
    simulation.runUntil(head.time);
    report.own_events = own.length;
    report.own_difference = Math.max(...events.map((e, k) => !own[k] || own[k][1] !== e.i ||
        own[k][2] !== (e.j ?? -1) ? Infinity : Math.max(Math.abs(own[k][0] - e.t),
        ...e.x.map((v, d) => Math.abs(v - own[k][3][d])))));
  }
  for (const name of Engine.shapes) {
    const graph = Engine.makeGraph(name, 16), k = Engine.constants(graph);
    found.constants[name] = [k.chi1, k.chi2, k.eta, k.alphaTilde,
                             Engine.decayExponent(graph, k.eta, k.alphaTilde)];
  }
  found.healed = Engine.constants(Engine.heal(Engine.makeGraph("ring", 12), [true]));

  // What the section on compression shows, with nobody broken, and with a worker that sends -x.
  found.compressed = {};
  const lies = {bad: 0, sends: "mirror"};
  for (const [name, kind, more] of [["whole", "whole", {}], ["mean", "mean", {}],
                                    ["kept", "kept", {share: .25, kappa: .4}],
                                    ["clipped", "clipped", {radius: .1}],
                                    ["mean, lies", "mean", lies],
                                    ["clipped, lies", "clipped", {radius: .1, ...lies}]]) {
    const run = new Rounds.Watched({graph: Engine.makeGraph("ring", 8), kind, ...more,
                                    problem: Engine.quadratic(8, {dims: 8})});
    const sum = {loss: 0, distance: 0}, steps = 300, from = 100;
    for (let t = 1; t <= steps; ++t) {
      run.step();
      if (t >= from) sum.loss += run.loss(), sum.distance += run.distance();
    }
    for (const what of ["loss", "distance"]) sum[what] /= steps - from + 1;
    found.compressed[name] = sum;
  }

  // Who starts an exchange, links[].i, has met somebody else before.
  const line = Rounds.timeline("a2cid2", Engine.makeGraph("ring", 8), {
    computeS: .25, sigma: 0, slow: new Array(8).fill(1), latencyS: 1e-4, bandwidth: 3e9,
    bytes: 1e8, buckets: 1, period: 1}, 50);
  const met = [];
  found.meetings = line.links.length, found.again = 0;
  for (const {i, j} of line.links) {
    found.again += met[i] === j;
    met[i] = j, met[j] = i;
  }

  // The section of one's own run, with files that are chosen and dropped. A file is read after the
  // page has loaded; a frame that is still being written holds up the browser until then.
  const own = document.getElementById("own"), status = own.querySelector("p[role=status]");
  const opened = name => new Promise(done => {
    const seen = new MutationObserver(() => {
      if (!status.textContent.startsWith(name)) return;
      seen.disconnect();
      const slider = own.querySelector("[type=range]");
      const report = {said: status.textContent, wrong: status.className === "error"};
      slide(slider, 0);
      report.begin = numbersOf(own);
      const picture = pictures(own);
      slide(slider, 1);
      report.end = numbersOf(own);
      report.moves = pictures(own) !== picture;
      report.drawn = own.querySelector("svg").childElementCount;
      done(report);
    });
    seen.observe(status, {childList: true});
  });
  const dataOf = (name, text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    return data;
  };
  const choose = data => {
    const input = own.querySelector("input[type=file]");
    input.files = data.files;
    input.dispatchEvent(new Event("change"));
  };
  const drop = data => own.dispatchEvent(
      new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
  const ownRuns = async () => {
    found.opened = {};
    const textOf = id => document.querySelector(`script#${id}`).textContent;
    for (const [use, name, text] of [[choose, "gradients.jsonl", textOf("gradients")],
                                     [drop, "poisson.jsonl", textOf("poisson")],
                                     [drop, "trace.json", textOf("trace")],
                                     [choose, "broken.json", "{\"traceEvents\": ["],
                                     [drop, "late.jsonl", textOf("late")]]) {
      const seen = opened(name);
      use(dataOf(name, text));
      found.opened[name] = await seen;
    }
  };
  const frame = document.body.appendChild(make("iframe", {})).contentDocument;
  frame.open();
  ownRuns().catch(error => errors.push(String(error))).then(() => {
    found.errors = errors;
    document.body.append(make("pre", {id: "found"}, JSON.stringify(found)));
    frame.close();
  });
}
