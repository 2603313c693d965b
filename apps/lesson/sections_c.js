// Sections of the lesson: who waits, the noise floor, consensus control.
"use strict";

const segmentColours = {compute: colour(0), wait: colour(1), transfer: colour(4)};

sections.waits = root => {
  const say = words.sections.waits;
  guess(root, say.guess, 2);
  let method = "allreduce", slow = 3, who = 3, shownFor = 4, sigma = 0, spread = 8;
  const n = 8, graph = Engine.makeGraph("ring", n);
  let line = null;
  const stage = new Stage(root, 330, (svg, width, height) => {
    const left = 34, right = 8, at = t => left + (width - left - right) * t / shownFor;
    const row = (height - 70) / n, lane = i => 24 + row * i, thick = row * .62;
    svg.append(make("text", {x: 4, y: 12}, say.worker),
               make("text", {x: (left + width - right) / 2, y: height - 4,
                             "text-anchor": "middle"}, say.timeInSeconds));
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
      svg.append(make("text", {x: at(t), y: height - 24, "text-anchor": "middle"}, shown(t, 3)));
    const y = lane(who) + thick / 2, x = left - 6;
    disc(svg, x, y, 6, colour(3));
    stage.handles.push({key: "slow", x, y, radius: 9, label: say.whichWorkerIsSlow, value: who,
      range: [0, n - 1], unit: say.isTheWorker,
      move: (_, to) => choose(Math.round((to - 24 - thick / 2) / row)),
      step: (_, dy) => choose(dy > 0 ? (who + n - 1) % n : (who + 1) % n),
      press: () => choose((who + 1) % n)});
  }, say.picture);
  key(root, [[say.computes, segmentColours.compute, "bar"],
             [say.waitsForOthers, segmentColours.wait, "bar"],
             [say.waitsForATransfer, segmentColours.transfer, "bar"],
             [say.exchange, "var(--text)"]]);
  const table = numbers(root), c = controls(root);
  const machinesOf = () => ({computeS: .25, sigma, latencyS: 1e-4, bandwidth: 3.125e9,
    bytes: 102e6, buckets: 4, period: spread, slow: graphSlow()});
  const graphSlow = () => Array.from({length: n}, (_, i) => i === who ? slow : 1);
  const choose = i => { who = Math.min(n - 1, Math.max(0, i)); show(); };
  const show = () => {
    line = Rounds.timeline(method, graph, machinesOf(), 125);
    const rest = line.steps.filter((_, i) => i !== who);
    table.set({[say.efficiency]: shown(line.efficiency, 3),
               [say.stepsPerSecondAll]: shown(line.stepsPerS),
               [say.stepsOfAFast]: String(rest[0]),
               [say.stepsOfTheSlow]: String(line.steps[who])});
    stage.redraw();
  };
  c.choice(say.method, [["allreduce", say.allReduce], ["local-sgd", say.localSGD],
                        ["dpsgd", say.dPSGD],
                      ["dpsgd-atc", say.dPSGDAdaptThen], ["a2cid2", say.a2cid2ADPSGD]],
           method, v => { method = v; show(); });
  c.slider(say.theSlowWorkerNeeds, {min: 1, max: 10, step: .5, value: slow, show: v => `× ${v}`},
           v => { slow = v; show(); });
  c.slider(say.chanceInComputeTimes, {min: 0, max: .6, step: .05, value: 0,
           show: v => v.toFixed(2)}, v => { sigma = v; show(); });
  c.slider(say.secondsShown, {min: 1, max: 10, value: shownFor}, v => { shownFor = v; show(); });
  check(root, say.check);
  show();
};

sections.noise = root => {
  const say = words.sections.noise;
  guess(root, say.guess, 1);
  let rate = .1, momentum = .9, n = 16, seed = 0, from = 100;
  const length = 300, dims = 8, samples = 200;
  const methods = [["a2cid2", shared.methods.a2cid2, colour(0)],
                   ["adpsgd", shared.methods.adpsgd, colour(1)]];
  let runs = [];
  const stage = new Stage(root, 300, (svg, width, height) => {
    const all = runs.flatMap(r => r.y).filter(v => v > 0);
    const top = 10 ** Math.ceil(Math.log10(Math.max(...all)));
    const of = axes(svg, width, height, {x: [0, length], y: [top / 1e4, top], logY: true,
                                         xName: say.time, yName: say.meanXMeanSquared});
    runs.forEach((r, k) => {
      of.line(r.time, r.y, {stroke: methods[k][2], "stroke-width": 1.5});
      of.line([from, length], [r.floor, r.floor], {stroke: methods[k][2], "stroke-width": 3,
                                                   "stroke-dasharray": ["8 5", "8 3 2 3"][k]});
    });
    svg.append(make("line", {x1: of.px(from), x2: of.px(from), y1: of.top, y2: of.bottom,
                             stroke: "var(--soft)", "stroke-dasharray": "3 4"}));
    disc(svg, of.px(from), of.bottom, 8, colour(2));
    stage.handles.push({key: "from", x: of.px(from), y: of.bottom, radius: 10,
                        label: say.whereTheMeanOver, value: from,
                        range: [0, length - 10], unit: say.ofTime,
                        move: p => put(of.back.x(p)), step: d => put(from + 5 * d)});
  }, say.picture);
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = t => { from = Math.min(length - 10, Math.max(0, Math.round(t))); settle(); };
  const settle = () => {
    const values = {};
    runs.forEach((r, k) => {
      const late = r.y.filter((_, i) => r.time[i] >= from);
      r.floor = late.reduce((a, b) => a + b, 0) / late.length;
      values[fill(say.floor, {method: methods[k][1]})] = shown(r.floor);
      values[fill(say.floorOverSquare, {method: methods[k][1]})] = shown(r.floor / rate ** 2);
    });
    values[say.adPSGDA2CiD2] = shown(runs[1].floor / runs[0].floor, 3);
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
  c.slider(say.learningRateGamma, {min: -3, max: 0, step: .1, value: -1,
           show: v => shown(10 ** v, 2)}, v => { rate = 10 ** v; show(); });
  c.slider(say.momentum, {min: 0, max: .95, step: .05, value: momentum, show: v => v.toFixed(2)},
           v => { momentum = v; show(); });
  c.slider(say.workersOnARing, {min: 4, max: 32, step: 4, value: n}, v => { n = v; show(); });
  c.slider(say.seed, {min: 0, max: 30, value: 0}, v => { seed = v; show(); });
  check(root, say.check);
  show();
};

sections.control = root => {
  const say = words.sections.control;
  guess(root, say.guess, 1);
  let fraction = .5, n = 16, steps = 300, graphName = "ring";
  let seen = [], free = [], target = 0, run = null;
  const stage = new Stage(root, 300, (svg, width, height) => {
    const top = 1.15 * Math.max(...free, ...seen);
    const of = axes(svg, width, height, {x: [0, steps], y: [0, top],
                                         xName: say.step, yName: say.distanceXi});
    const at = seen.map((_, i) => i + 1);
    of.line(at, free, {stroke: colour(1), "stroke-width": 1.5});
    of.line(at, seen, {stroke: colour(0)});
    const plateau = target > 0 ? target / fraction : top / 2, y = of.py(fraction * plateau);
    svg.append(make("line", {x1: of.left, x2: of.right, y1: y, y2: y, stroke: colour(2),
                             "stroke-width": 2, "stroke-dasharray": "6 5"}));
    disc(svg, of.right - 4, y, 8, colour(2));
    stage.handles.push({key: "target", x: of.right - 4, y, radius: 10, label: say.theTarget,
                        value: fraction, range: [.05, .95], unit: say.ofWhatWasMeasured,
                        move: (_, p) => put(of.back.y(p) / plateau),
                        step: (dx, dy) => put(fraction + (dx + dy) / 20)});
  }, say.picture);
  key(root, [[say.xiUnderControl, colour(0)], [say.withoutControl, colour(1)],
             [say.target, colour(2), "6 5"]]);
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
    table.set({[say.targetXi]: shown(target), [say.xiOfTheLast]: shown(mean),
               [say.roundsOfGossipBy]: String(run.rounds),
               [say.perStep]: shown(run.rounds / steps, 3),
               [say.exactAverages]: String(run.means)});
    stage.redraw();
  };
  const part = c.slider(say.fractionOfThePlateau, {min: .05, max: .95, step: .05, value: fraction,
                        show: v => v.toFixed(2)}, v => { fraction = v; show(); });
  c.choice(say.graph, graphsOf(["ring", "exponential", "complete"]), graphName,
           v => { graphName = v; show(); });
  c.slider(say.workers, {min: 4, max: 32, step: 4, value: n}, v => { n = v; show(); });
  check(root, say.check);
  show();
};
