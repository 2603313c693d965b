// Sections of the lesson: two workers, graphs, clocks.
"use strict";
const sections = {};
// Graphs as choices: their names in the program, and as the page says them.
const graphsOf = names => names.map(name => [name, shared.graphs[name]]);

sections.two = root => {
  const say = words.sections.two;
  guess(root, say.guess, 1);
  const start = [-3, 5];
  let x = [...start], alpha = .5, first = 1, count = 0;
  const trail = [];
  const low = -8, high = 8;
  const stage = new Stage(root, 190, (svg, width) => {
    const at = v => 24 + (width - 48) * (v - low) / (high - low), y = 92;
    const value = p => low + (p - 24) / (width - 48) * (high - low);
    svg.append(make("line", {x1: at(low), x2: at(high), y1: y, y2: y, stroke: "var(--soft)"}));
    for (let v = low; v <= high; v += 2)
      svg.append(make("line", {x1: at(v), x2: at(v), y1: y - 4, y2: y + 4, stroke: "var(--soft)"}),
                 make("text", {x: at(v), y: y + 44, "text-anchor": "middle"}, v));
    trail.forEach((old, k) => old.forEach((v, i) => svg.append(make("circle",
        {cx: at(v), cy: y, r: 2 + 3 * (k + 1) / trail.length, fill: "none", stroke: colour(i)}))));
    const mean = (x[0] + x[1]) / 2;
    svg.append(make("line", {x1: at(mean), x2: at(mean), y1: 26, y2: y + 24, stroke: colour(2),
                             "stroke-width": 2, "stroke-dasharray": "5 4"}),
               make("text", {x: at(mean), y: 18, "text-anchor": "middle", class: "strong"},
                    fill(say.mean, {mean: shown(mean)})));
    x.forEach((v, i) => {  // where an exchange would put it
      svg.append(make("circle", {cx: at(v - alpha * (v - x[1 - i])), cy: y, r: 10, fill: "none",
                                 stroke: colour(i), "stroke-width": 2,
                                 "stroke-dasharray": "4 3"}));
    });
    const near = Math.abs(at(x[0]) - at(x[1])) < 90;  // one name below the other
    x.forEach((v, i) => {
      disc(svg, at(v), y, 14, colour(i), i + 1);
      svg.append(make("text", {x: at(v), y: near && !i ? y + 86 : y + 66, "text-anchor": "middle",
                               class: "strong"}, `x${"₁₂"[i]} = ${shown(v, 3)}`));
      stage.handles.push({key: `x${i}`, x: at(v), y, radius: 14,
                          label: fill(shared.worker, {worker: i + 1}),
                          value: v, range: [low, high], unit: say.isItsNumber,
                          move: p => put(i, value(p)), step: d => put(i, x[i] + d / 10)});
    });
  }, say.picture);
  const table = numbers(root), c = controls(root);
  const put = (i, v) => {
    x[i] = Math.min(high, Math.max(low, Math.round(v * 10) / 10));
    first = (x[0] + x[1]) / 2;
    count = 0;
    trail.length = 0;
    show();
  };
  const show = () => {
    stage.redraw();
    table.set({[say.meanBefore]: first, [say.meanNow]: (x[0] + x[1]) / 2,
               [say.differenceX1X]: x[0] - x[1], [say.exchanges]: String(count)});
  };
  c.slider(say.alphaTheStep, {min: 0, max: 1, step: .05, value: alpha},
           v => { alpha = v; show(); });
  c.button(say.exchange, () => {
    const d = x[0] - x[1];
    trail.push([...x]);
    if (trail.length > 6) trail.shift();
    x = [x[0] - alpha * d, x[1] + alpha * d];
    ++count;
    show();
  }).dataset.test = "exchange";
  c.button(say.again, () => { x = [...start]; put(0, x[0]); });
  check(root, say.check);
  put(0, x[0]);
};

// Graphs are drawn on a circle; width of an edge: its rate.
const drawGraph = (svg, graph, places, paint = () => "var(--soft)", dash = () => "none") => {
  const most = Math.max(...graph.edges.map(e => e.rate));
  graph.edges.forEach((e, k) => svg.append(make("line", {
    x1: places[e.a][0], y1: places[e.a][1], x2: places[e.b][0], y2: places[e.b][1],
    stroke: paint(e, k), "stroke-width": 1 + 2.5 * e.rate / most, "stroke-dasharray": dash(e)})));
};

sections.graphs = root => {
  const say = words.sections.graphs;
  guess(root, say.guess, 2);
  let name = "ring", n = 16, pairs = null, chosen = null, graph = null;
  const stage = new Stage(root, width => Math.min(380, width), (svg, width, height) => {
    const places = onCircle(n, width / 2, height / 2, height / 2 - 26);
    const k = Engine.constants(graph);
    const worst = k && Math.max(...k.resistances);
    drawGraph(svg, graph, places, (e, i) =>
        k && k.resistances[i] > worst - 1e-9 ? colour(1) : "var(--soft)");
    places.forEach(([x, y], i) => {
      disc(svg, x, y, 13, i === chosen ? colour(1) : colour(0), i);
      stage.handles.push({key: `w${i}`, x, y, radius: 13, label: fill(shared.worker, {worker: i}),
                          press: () => press(i)});
    });
  }, say.picture);
  key(root, [[say.worstPlaced, colour(1), "none"], [say.otherEdges, "var(--soft)"]]);
  const note = make("p", {class: "soft", role: "status"});
  root.append(note);
  const table = numbers(root);
  const press = i => {
    if (chosen === null) chosen = i;
    else {
      if (chosen !== i) {
        const a = Math.min(i, chosen), b = Math.max(i, chosen);
        const at = pairs.findIndex(p => p[0] === a && p[1] === b);
        if (at >= 0) pairs.splice(at, 1);
        else pairs.push([a, b]);
      }
      chosen = null;
    }
    show();
  };
  const reset = () => {
    chosen = null;
    try {
      pairs = Engine.makeGraph(name, n).edges.map(e => [e.a, e.b, e.rate]);
      note.textContent = "";
    } catch (error) {
      note.textContent = fill(say.shownIsTheRing, {why: whyOf(error, {workers: n})});
      pairs = Engine.makeGraph("ring", n).edges.map(e => [e.a, e.b, e.rate]);
    }
    const own = pairs.reduce((s, p) => s + p[2], 0) / pairs.length;
    for (const p of pairs) p[2] /= own;  // relative: an edge that is added weighs 1
    show();
  };
  const show = () => {
    graph = Engine.graphOf(n, pairs);
    const whole = pairs.length && new Set(Engine.pieces(graph)).size === 1;
    const k = whole ? Engine.constants(graph) : null;
    stage.redraw();
    if (!k) return table.set({"": say.itFallsApartAdd});
    const load = new Array(n).fill(0);
    for (const e of graph.edges) load[e.a] += e.rate, load[e.b] += e.rate;
    table.set({[say.edges]: String(graph.edges.length),
               [say.lambda2OfTheLaplacian]: shown(k.lambda2),
               [say.chi11Lambda2]: shown(k.chi1, 5), [say.chi2]: shown(k.chi2),
               [say.eta]: shown(k.eta),
               [say.alphaTilde]: shown(k.alphaTilde), [say.plainGossipNeedsChi1]: shown(k.chi1, 3),
               [say.a2cid2NeedsRootChi1]: shown(.5 / k.eta, 3),
               [say.exchangesOfTheBusiest]: shown(Math.max(...load), 3)});
  };
  const c = controls(root);
  c.choice(say.graph, graphsOf(Engine.shapes), name, v => { name = v; reset(); });
  c.slider(say.workers, {min: 3, max: 32, value: n}, v => { n = v; reset(); });
  c.button(say.undoAllEdits, reset);
  check(root, say.check);
  reset();
};

sections.clocks = root => {
  const say = words.sections.clocks;
  guess(root, say.guess, 2);
  let kind = "poisson", seed = 0, until = 8, n = 8, events = [];
  const length = 12;
  const stage = new Stage(root, 330, (svg, width, height) => {
    const left = 30, right = 10, at = t => left + (width - left - right) * t / length;
    const lane = i => 34 + (height - 94) * i / (n - 1), axis = height - 44;
    svg.append(make("text", {x: 4, y: 12}, say.worker),
               make("text", {x: (left + width - right) / 2, y: height - 4,
                             "text-anchor": "middle"}, say.time));
    for (let i = 0; i < n; ++i)
      svg.append(make("line", {x1: left, x2: width - right, y1: lane(i), y2: lane(i),
                               stroke: "var(--line)"}),
                 make("text", {x: 8, y: lane(i) + 4, class: "strong"}, i));
    for (let t = 0; t <= length; t += 2)
      svg.append(make("text", {x: at(t), y: axis + 22, "text-anchor": "middle"}, t));
    for (const e of events) {
      const past = e.t <= until, wrap = e.j - e.i > n / 2;
      const shade = {stroke: past ? colour(e.i) : "var(--soft)", "stroke-width": past ? 2 : .8,
                     x1: at(e.t), x2: at(e.t)};
      if (wrap)  // the edge that closes the ring: out at both ends
        svg.append(make("line", {...shade, y1: lane(0), y2: lane(0) - 14}),
                   make("line", {...shade, y1: lane(n - 1), y2: lane(n - 1) + 14}));
      else svg.append(make("line", {...shade, y1: lane(e.i), y2: lane(e.j)}));
      for (const i of [e.i, e.j])
        svg.append(make("circle", {cx: at(e.t), cy: lane(i), r: past ? 3.5 : 2.5,
                                   fill: past ? shade.stroke : "var(--box)",
                                   stroke: shade.stroke}));
    }
    svg.append(make("line", {x1: at(until), x2: at(until), y1: 16, y2: axis,
                             stroke: colour(1), "stroke-width": 2}));
    stage.handles.push({key: "now", x: at(until), y: axis, radius: 10, label: say.time,
                        value: until, range: [0, length], unit: say.ofTime,
                        move: p => put((p - left) / (width - left - right) * length),
                        step: d => put(until + d / 4)});
    disc(svg, at(until), axis, 8, colour(1));
  }, say.picture);
  const bars = new Stage(root, 190, (svg, width, height) => {
    const counts = Array.from({length: n}, (_, i) =>
        events.filter(e => e.t <= until && edgeOf(e) === i).length);
    const most = Math.max(4, ...counts), step = (width - 40) / n;
    const middle = i => 30 + (i + .35) * step, foot = height - 38;
    const up = count => (foot - 36) * count / most, y = foot - up(until / 2);
    counts.forEach((count, i) => svg.append(
        make("rect", {x: 30 + i * step, y: foot - up(count), width: step * .7, height: up(count),
                      fill: colour(i), rx: 2}),
        make("text", {x: middle(i), y: foot + 16, "text-anchor": "middle"},
             `${i}–${(i + 1) % n}`)));
    svg.append(make("line", {x1: 26, x2: width - 10, y1: y, y2: y, stroke: "var(--text)",
                             "stroke-dasharray": "4 4"}),
               make("text", {x: 4, y: 12}, say.exchangesUntilThen),
               make("text", {x: width / 2, y: height - 4, "text-anchor": "middle"}, say.edge));
    counts.forEach((count, i) => svg.append(make("text", {x: middle(i), y: foot - 4 - up(count),
        "text-anchor": "middle", class: "strong"}, count)));
  }, say.picture2);
  key(root, [[say.expected, "var(--text)", "4 4"]]);
  const edgeOf = e => e.j - e.i > n / 2 ? n - 1 : e.i;
  const table = numbers(root), c = controls(root);
  const put = t => { until = Math.min(length, Math.max(0, t)); slider.put(until); show(); };
  const run = () => {
    const graph = Engine.makeGraph("ring", n);
    events = [];
    if (kind === "rounds")
      for (let t = 1; t <= length; ++t)
        for (const e of graph.edges) events.push({t, i: e.a, j: e.b});
    else
      new Engine.Simulation({graph, pairing: kind, seed, method: "adpsgd",
                             onEvent: e => events.push(e)}).runUntil(length);
    show();
  };
  const show = () => {
    stage.redraw();
    bars.redraw();
    const count = events.filter(e => e.t <= until).length;
    table.set({[say.exchangesSoFar]: String(count), [say.perWorkerAndTime]:
               until > 0 ? shown(2 * count / n / until, 3) : "0", [say.time]: shown(until, 3)});
  };
  c.choice(say.pairing, [["poisson", say.poissonClocks], ["matching", say.matchings],
                       ["rounds", say.roundsWithAllNeighbours]], kind, v => { kind = v; run(); });
  c.slider(say.seed, {min: 0, max: 50, value: seed}, v => { seed = v; run(); });
  const slider = c.slider(say.time, {min: 0, max: length, step: .25, value: until},
                          v => { until = v; show(); });
  check(root, say.check);
  run();
};
