// Sections of the lesson: scaling, a death in the ring, your own run.
"use strict";

sections.scaling = root => {
  const say = words.sections.scaling;
  guess(root, say.guess, 2);
  const sizes = [16, 32, 64, 128, 256, 512, 1024];
  // What `gossamer simulate exchanges` prints for A2CiD2.
  const measured = {
    star: [551, 1178, 2348, 4574, 9471, 18230, 37160],
    ring: [1136, 4228, 16420, 63730, 248900, 975700, 3951000],
    complete: [416, 855, 1741, 3475, 6971, 13890, 28490]
  };
  let graph = "ring", at = 2;
  const lines = [[say.synchronousRounds, colour(1)], [say.acceleratedChebyshev, colour(4)],
                 [shared.methods.a2cid2, colour(0)]];
  const valuesOf = name => [sizes.map(n => Rounds.exchangesUntilAgreed(name, n, false)),
                            sizes.map(n => Rounds.exchangesUntilAgreed(name, n, true)),
                            measured[name]];
  const power = y => {
    const lx = sizes.map(Math.log), ly = y.map(Math.log), m = sizes.length;
    const mx = lx.reduce((a, b) => a + b) / m, my = ly.reduce((a, b) => a + b) / m;
    return lx.reduce((s, x, i) => s + (x - mx) * (ly[i] - my), 0) /
        lx.reduce((s, x) => s + (x - mx) ** 2, 0);
  };
  const stage = new Stage(root, 340, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [13, 1250], y: [10, 3e10], logX: true, logY: true,
                                         xName: say.workers, yName: say.exchanges});
    valuesOf(graph).forEach((y, k) => {
      of.line(sizes, y, {stroke: lines[k][1]});
      y.forEach((v, i) => svg.append(make("circle", {cx: of.px(sizes[i]), cy: of.py(v),
                                                     r: i === at ? 6 : 3.5, fill: lines[k][1]})));
    });
    const x = of.px(sizes[at]);
    svg.append(make("line", {x1: x, x2: x, y1: of.top, y2: of.bottom, stroke: "var(--soft)",
                             "stroke-dasharray": "3 4"}));
    disc(svg, x, of.bottom, 8, colour(2));
    stage.handles.push({key: "n", x, y: of.bottom, radius: 10, label: say.numberOfWorkers,
                        value: sizes[at], range: [16, 1024], unit: say.workers,
                        move: p => put(Math.round(Math.log2(of.back.x(p) / 16))),
                        step: d => put(at + d)});
  }, say.picture);
  key(root, lines);
  const table = numbers(root), c = controls(root);
  const put = k => { at = Math.min(sizes.length - 1, Math.max(0, k)); slider.put(at); show(); };
  const show = () => {
    const values = {[say.workers]: String(sizes[at])};
    valuesOf(graph).forEach((y, k) => {
      values[lines[k][0]] = shown(y[at], 4);
      values[fill(say.powerOfN, {method: lines[k][0]})] = shown(power(y), 3);
    });
    table.set(values);
    stage.redraw();
  };
  c.choice(say.graph, graphsOf(["ring", "star", "complete"]), graph,
           v => { graph = v; show(); });
  const slider = c.slider(say.workers, {min: 0, max: sizes.length - 1, value: at,
                          show: v => sizes[v]}, v => { at = v; show(); });
  check(root, say.check);
  show();
};

sections.death = root => {
  const say = words.sections.death;
  guess(root, say.guess, 1);
  let name = "ring", n = 12, dead = [];
  let healed = null, whole = null;
  const stage = new Stage(root, width => Math.min(360, width), (svg, width, height) => {
    const places = onCircle(n, width / 2, height / 2, height / 2 - 26);
    const before = new Set(whole.edges.map(e => `${e.a}-${e.b}`));
    const isOld = e => before.has(`${e.a}-${e.b}`);
    if (healed) drawGraph(svg, healed, places, e => isOld(e) ? "var(--soft)" : colour(2),
                          e => isOld(e) ? "none" : dashOf(colour(2)));
    places.forEach(([x, y], i) => {
      disc(svg, x, y, 13, dead[i] ? "var(--line)" : colour(0), i);
      stage.handles.push({key: `w${i}`, x, y, radius: 13,
                          label: fill(dead[i] ? say.bringBack : say.kill, {worker: i}),
                          press: () => kill(i)});
    });
  }, say.picture);
  key(root, [[say.edgeOfTheGraph, "var(--soft)"], [say.edgeThatHealsIt, colour(2)]]);
  const table = numbers(root), c = controls(root);
  const kill = i => {
    dead[i] = !dead[i];
    if (n - dead.filter(d => d).length < 2) dead[i] = false;
    show();
  };
  const show = () => {
    whole = Engine.makeGraph(name, n);
    healed = Engine.heal(whole, dead);
    const a = Engine.constants(whole), b = Engine.constants(healed);
    const alive = n - dead.filter(d => d).length;
    const rates = healed.edges.reduce((sum, e) => sum + e.rate, 0);
    table.set({[say.alive]: fill(say.aliveOf, {alive, workers: n}), [say.chi1Before]: shown(a.chi1),
               [say.chi1Now]: shown(b.chi1), [say.chi2Before]: shown(a.chi2),
               [say.chi2Now]: shown(b.chi2),
               [say.etaNow]: shown(b.eta), [say.alphaTildeNow]: shown(b.alphaTilde),
               [say.exchangesPerWorkerAnd]: shown(2 * rates / alive, 3)});
    stage.redraw();
  };
  c.choice(say.graph, graphsOf(Engine.shapes.filter(s => s !== "hypercube" && s !== "torus")),
           name, v => { name = v; show(); });
  c.slider(say.workers, {min: 3, max: 24, value: n}, v => { n = v; dead = []; show(); });
  c.button(say.allAlive, () => { dead = []; show(); });
  check(root, say.check);
  show();
};

sections.own = root => {
  const say = words.sections.own;
  guess(root, say.guess, 1);
  const {open, more} = player(root);
  const read = file => file && file.text().then(text => open(text, file.name));
  const file = make("input", {type: "file", accept: ".jsonl,.json",
                              onchange: e => read(e.target.files[0])});
  more.append(make("label", {style: "flex:1 1 240px;max-width:100%"},
                    say.file, file));
  root.addEventListener("dragover", e => e.preventDefault());
  root.addEventListener("drop", e => {
    e.preventDefault();
    read(e.dataTransfer.files[0]);
  });
  check(root, say.check);
  // until a file comes: a run made here, written as the program writes it
  const graph = Engine.makeGraph("ring", 8), k = Engine.constants(graph), lines = [];
  const simulation = new Engine.Simulation({graph, constants: k, dims: 1,
    problem: Engine.quadratic(8, {dims: 1}), onEvent: e => {
      const w = simulation.workers[e.i], other = simulation.workers[e.j];
      lines.push({event: e.kind, t: e.t, own: e.t, eta: k.eta, i: e.i, j: e.j, update: e.update &&
        [...e.update], x: [...w.x], twin: [...w.twin], ...(other ? {other_x: [...other.x],
        other_twin: [...other.twin]} : {})});
    }});
  const head = {workers: 8, graph: "ring", method: "a2cid2", pairing: "poisson", time: 20,
    eta: k.eta, alpha: .5, alpha_tilde: k.alphaTilde, edges: graph.edges.map(
        e => [e.a, e.b, e.rate])};
  for (let i = 0; i < 8; ++i) lines.push({event: "start", t: 0, i, x: [1]});
  simulation.runUntil(20);
  open([head, ...lines].map(line => JSON.stringify(line)).join("\n"), say.madeHere);
};
