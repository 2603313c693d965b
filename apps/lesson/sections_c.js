// Sections of the lesson: who waits, the noise floor, consensus control.
"use strict";

const segmentColours = {compute: colour(0), wait: colour(1), transfer: colour(4)};

sections.waits = root => {
  guess(root, "One of 8 workers needs three times as long for a gradient. With all-reduce, what " +
        "part of the work that could be done is done?", ["about 90 %", "two thirds", "36 %"], 2,
        "All go at the pace of the slowest, also the seven that could be three times as fast. " +
        "Without rounds nobody waits, and the slow one does what it can.");
  let method = "allreduce", slow = 3, who = 3, shownFor = 4, sigma = 0, spread = 8;
  const n = 8, graph = Engine.makeGraph("ring", n);
  let line = null;
  const stage = new Stage(root, 310, (svg, width, height) => {
    const left = 34, right = 8, at = t => left + (width - left - right) * t / shownFor;
    const lane = i => 14 + (height - 50) * i / n, thick = (height - 50) / n * .62;
    for (let i = 0; i < n; ++i) {
      svg.append(make("text", {x: 10, y: lane(i) + thick / 2 + 4, class: "strong"}, i));
      for (const s of line.lanes[i].filter(each => each.from < shownFor))
        svg.append(make("rect", {x: at(s.from) + .5, y: lane(i), height: thick, rx: 2,
                                 width: Math.max(.5, at(Math.min(shownFor, s.to)) - at(s.from) - 1),
                                 fill: segmentColours[s.kind]}));
    }
    for (const l of line.links.filter(each => each.to < shownFor))
      svg.append(make("line", {x1: at(l.from), x2: at(l.to), y1: lane(l.i) + thick / 2,
                               y2: lane(l.j) + thick / 2, stroke: "var(--text)",
                               "stroke-width": 1.5}));
    const step = roundStep(shownFor, width / 80);
    for (let t = 0; t <= shownFor + 1e-9; t += step)
      svg.append(make("text", {x: at(t), y: height - 8, "text-anchor": "middle"}, shown(t, 3)));
    const y = lane(who) + thick / 2, x = left - 6;
    disc(svg, x, y, 6, colour(3));
    const row = (height - 50) / n;
    stage.handles.push({key: "slow", x, y, radius: 9, label: "which worker is slow", value: who,
      range: [0, n - 1], unit: "is the worker",
      move: (_, to) => choose(Math.round((to - 14 - thick / 2) / row)),
      step: (_, dy) => choose(dy > 0 ? (who + n - 1) % n : (who + 1) % n),
      press: () => choose((who + 1) % n)});
  }, "what each worker does over time, in seconds");
  key(root, [["computes", segmentColours.compute], ["waits for others", segmentColours.wait],
             ["waits for a transfer", segmentColours.transfer], ["exchange", "var(--text)"]]);
  const table = numbers(root), c = controls(root);
  const machinesOf = () => ({computeS: .25, sigma, latencyS: 1e-4, bandwidth: 3.125e9,
    bytes: 102e6, buckets: 4, period: spread, slow: graphSlow()});
  const graphSlow = () => Array.from({length: n}, (_, i) => i === who ? slow : 1);
  const choose = i => { who = Math.min(n - 1, Math.max(0, i)); show(); };
  const show = () => {
    line = Rounds.timeline(method, graph, machinesOf(), 125);
    const rest = line.steps.filter((_, i) => i !== who);
    table.set({efficiency: shown(line.efficiency, 3),
               "steps per second, all": shown(line.stepsPerS),
               "steps of a fast worker in 125 s": String(rest[0]),
               "steps of the slow one": String(line.steps[who])});
    stage.redraw();
  };
  c.choice("method", [["allreduce", "all-reduce"], ["local-sgd", "local SGD"], ["dpsgd", "D-PSGD"],
                      ["dpsgd-atc", "D-PSGD, adapt then combine"], ["a2cid2", "A2CiD2, AD-PSGD"]],
           method, v => { method = v; show(); });
  c.slider("the slow worker needs", {min: 1, max: 10, step: .5, value: slow, show: v => `× ${v}`},
           v => { slow = v; show(); });
  c.slider("chance in compute times", {min: 0, max: .6, step: .05, value: 0,
           show: v => v.toFixed(2)}, v => { sigma = v; show(); });
  c.slider("seconds shown", {min: 1, max: 10, value: shownFor}, v => { shownFor = v; show(); });
  root.append(make("p", {class: "check"}, "Drag the violet dot to another worker. Check: ",
                   make("code", {}, "gossamer simulate timeline --workers 8 --slow 3:x3 " +
                        "--compute constant --method allreduce"), " prints the same efficiency. ",
                   "The time line of A2CiD2 is a picture: in the program the pairing is a ",
                   "protocol of messages, and an exchange that finds nobody free waits without ",
                   "holding up the computation. Who starts one looks for another partner than ",
                   "its last: two that have just met are nearly equal. Where transfers take as ",
                   "long as gradients and nobody else is free, a ring of 16 that takes the last ",
                   "partner agrees at a rate of 0.15, else of 0.25. Not waiting has a price where ",
                   "workers see different data: who is fast takes more steps, so its data count ",
                   "more, and the minimum moves. One of 8 workers ten times slower: the loss ends ",
                   ".16 above the minimum, not .0002: ", make("code", {},
                   "gossamer simulate quadratic --workers 8 --noise 0 --pairing handshake " +
                   "--slow 3:x10"), "."));
  show();
};

sections.noise = root => {
  guess(root, "Gradients are only noise now. What does twice the learning rate do to the mean " +
        "(x − x̄)² at which the workers settle?", ["twice as much", "four times as much",
        "nothing, gossip removes it"], 1,
        "Everything is linear: x scales with the learning rate, and the floor with its square, " +
        "exactly. That is why the learning rate has to fall at the end of training.");
  let rate = .1, momentum = .9, n = 16, seed = 0, from = 100;
  const length = 300, dims = 8, samples = 200;
  const methods = [["a2cid2", "A2CiD2", colour(0)], ["adpsgd", "AD-PSGD", colour(1)]];
  let runs = [];
  const stage = new Stage(root, 300, (svg, width, height) => {
    const all = runs.flatMap(r => r.y).filter(v => v > 0);
    const top = 10 ** Math.ceil(Math.log10(Math.max(...all)));
    const of = axes(svg, width, height, {x: [0, length], y: [top / 1e4, top], logY: true,
                                         xName: "time", yName: "mean (x − x̄)²"});
    runs.forEach((r, k) => {
      of.line(r.time, r.y, {stroke: methods[k][2], "stroke-width": 1.5});
      of.line([from, length], [r.floor, r.floor], {stroke: methods[k][2], "stroke-width": 3,
                                                   "stroke-dasharray": ["8 5", "8 3 2 3"][k]});
    });
    svg.append(make("line", {x1: of.px(from), x2: of.px(from), y1: of.top, y2: of.bottom,
                             stroke: "var(--soft)", "stroke-dasharray": "3 4"}));
    disc(svg, of.px(from), of.bottom, 8, colour(2));
    stage.handles.push({key: "from", x: of.px(from), y: of.bottom, radius: 10,
                        label: "where the mean over time begins", value: from,
                        range: [0, length - 10], unit: "of time",
                        move: p => put(of.back.x(p)), step: d => put(from + 5 * d)});
  }, "distance between workers over time");
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = t => { from = Math.min(length - 10, Math.max(0, Math.round(t))); settle(); };
  const settle = () => {
    const values = {};
    runs.forEach((r, k) => {
      const late = r.y.filter((_, i) => r.time[i] >= from);
      r.floor = late.reduce((a, b) => a + b, 0) / late.length;
      values[`${methods[k][1]}: floor`] = shown(r.floor);
      values[`${methods[k][1]}: floor / γ²`] = shown(r.floor / rate ** 2);
    });
    values["AD-PSGD / A2CiD2"] = shown(runs[1].floor / runs[0].floor, 3);
    table.set(values);
    stage.redraw();
  };
  const show = () => {
    const graph = Engine.makeGraph("ring", n);
    const problem = Engine.quadratic(n, {dims, curvature: 0, heterogeneity: 0});
    runs = methods.map(([method]) => {
      const s = new Engine.Simulation({graph, method, problem, seed, learningRate: rate, momentum});
      const time = Array.from({length: samples + 1}, (_, k) => length * k / samples);
      return {time, y: time.map(t => { s.runUntil(t); return s.distance(); })};
    });
    settle();
  };
  c.slider("learning rate γ", {min: -3, max: 0, step: .1, value: -1,
           show: v => shown(10 ** v, 2)}, v => { rate = 10 ** v; show(); });
  c.slider("momentum", {min: 0, max: .95, step: .05, value: momentum, show: v => v.toFixed(2)},
           v => { momentum = v; show(); });
  c.slider("workers on a ring", {min: 4, max: 32, step: 4, value: n}, v => { n = v; show(); });
  c.slider("seed", {min: 0, max: 30, value: 0}, v => { seed = v; show(); });
  root.append(make("p", {class: "check"}, "Dashed: the mean from the green dot on. Check: ",
                   make("code", {}, "gossamer simulate quadratic --workers 16 --curvature 0 " +
                        "--heterogeneity 0 --learning-rate 0.1 --momentum 0.9 --dims 8 " +
                        "--time 300 --seeds 1"), " prints the floor of A2CiD2 from time 100 on, ",
                   "to the last digit shown. For γ = 1 and 64 workers theory says 963 for AD-PSGD ",
                   "and 218 for A2CiD2. Without momentum the twin gains little: with γ = 1 and ",
                   "16 workers 3.33 stands beside 3.54. All these are means over coordinates."));
  show();
};

sections.control = root => {
  guess(root, "Consensus control keeps the distance Ξ between workers at half of what its first " +
        "ten steps have measured. What does it pay?", ["a smaller learning rate",
        "more rounds of gossip", "an all-reduce every step"], 1,
        "After a step it gossips on until Ξ is at the target; of the last round it keeps only " +
        "the part that it needs.");
  let fraction = .5, n = 16, steps = 300, graphName = "ring";
  let seen = [], free = [], target = 0, run = null;
  const stage = new Stage(root, 300, (svg, width, height) => {
    const top = 1.15 * Math.max(...free, ...seen);
    const of = axes(svg, width, height, {x: [0, steps], y: [0, top], xName: "step", yName: "Ξ"});
    const at = seen.map((_, i) => i + 1);
    of.line(at, free, {stroke: colour(1), "stroke-width": 1.5});
    of.line(at, seen, {stroke: colour(0)});
    const plateau = target > 0 ? target / fraction : top / 2, y = of.py(fraction * plateau);
    svg.append(make("line", {x1: of.left, x2: of.right, y1: y, y2: y, stroke: colour(2),
                             "stroke-width": 2, "stroke-dasharray": "6 5"}));
    disc(svg, of.right - 4, y, 8, colour(2));
    stage.handles.push({key: "target", x: of.right - 4, y, radius: 10, label: "the target",
                        value: fraction, range: [.05, .95], unit: "of what was measured",
                        move: (_, p) => put(of.back.y(p) / plateau),
                        step: (dx, dy) => put(fraction + (dx + dy) / 20)});
  }, "distance between workers after each step");
  key(root, [["Ξ under control", colour(0)], ["without control", colour(1)],
             ["target", colour(2)]]);
  const table = numbers(root), c = controls(root);
  const put = f => {
    fraction = Math.min(.95, Math.max(.05, Math.round(f * 20) / 20));
    part.put(fraction);
    show();
  };
  const show = () => {
    const graph = Engine.makeGraph(graphName, n);
    const follow = wanted => {
      run = new Rounds.Controlled({graph, fraction: wanted, steps});
      return Array.from({length: steps}, () => run.step());
    };
    free = follow(1);
    seen = follow(fraction);
    target = run.target;
    const late = seen.slice(Math.floor(steps / 3));
    const mean = late.reduce((a, b) => a + b) / late.length;
    table.set({"target Ξ": shown(target), "Ξ of the last two thirds": shown(mean),
               "rounds of gossip by control": String(run.rounds),
               "per step": shown(run.rounds / steps, 3), "exact averages": String(run.means)});
    stage.redraw();
  };
  const part = c.slider("fraction of the plateau", {min: .05, max: .95, step: .05, value: fraction,
                        show: v => v.toFixed(2)}, v => { fraction = v; show(); });
  c.choice("graph", ["ring", "exponential", "complete"].map(s => [s, s]), graphName,
           v => { graphName = v; show(); });
  c.slider("workers", {min: 4, max: 32, step: 4, value: n}, v => { n = v; show(); });
  root.append(make("p", {class: "check"}, "Drag the dashed line. Check: ", make("code", {},
      "gossamer simulate quadratic --workers 16 --method consensus-control " +
      "--control-fractions .5 --curvature 0 --heterogeneity 0 --dims 8 --learning-rate .1 " +
      "--seeds 1 --time 300"),
      " takes as many rounds of gossip. The first 10 steps only measure: the plateau is what they ",
      "saw, not yet the final one. Half of it is about 44 % of where 16 workers would settle, and ",
      "34 % with 32. Ξ² sums over all 8 coordinates, where the section before has their mean: the ",
      "same distance is √8 times as large here."));
  show();
};
