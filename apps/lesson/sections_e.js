// Sections of the lesson: what distance does to learning, unlike data at unlike speeds, own steps.
"use strict";

sections.learning = root => {
  const say = words.sections.learning;
  guess(root, say.guess, 1);
  const dims = 8, points = 25, lowest = .003, highest = .8;
  let n = 16, name = "ring", method = "a2cid2", length = 100, rate = .1, momentum = 0;
  let curve = [], run = null;
  // Runs until `length`: at 200 times the loss of the mean model, and of a worker's, on average.
  const follow = gamma => {
    const graph = Engine.makeGraph(name, n);
    const problem = Engine.quadratic(n, {dims, heterogeneity: 0});
    const s = new Engine.Simulation({graph, method, problem, learningRate: gamma, momentum});
    const time = Array.from({length: 201}, (_, k) => length * k / 200);
    const ofMean = [], ofWorker = [];
    for (const t of time) {
      s.runUntil(t);
      ofMean.push(problem.loss(s.mean()));
      ofWorker.push(ofMean.at(-1) + .5 * dims * s.distance());
    }
    const late = list => list.slice(100).reduce((a, b) => a + b, 0) / 101;
    return {gamma, time, ofMean, ofWorker, mean: late(ofMean), worker: late(ofWorker)};
  };
  const floor = gamma => gamma * dims / (4 * n) / (1 - momentum);
  const stage = new Stage(root, 300, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [lowest, highest], y: [1e-3, 10], logX: true,
      logY: true, xName: say.learningRateGamma, yName: say.lossMeanOverThe});
    const gammas = curve.map(r => r.gamma);
    of.line(gammas, gammas.map(floor), {stroke: "var(--text)", "stroke-dasharray": "6 5",
                                        "stroke-width": 1.5});
    of.line(gammas, curve.map(r => r.mean), {stroke: colour(0)});
    of.line(gammas, curve.map(r => r.worker), {stroke: colour(1)});
    disc(svg, of.px(rate), of.bottom, 8, colour(2));
    stage.handles.push({key: "rate", x: of.px(rate), y: of.bottom, radius: 10,
                        label: say.theLearningRate, value: rate,
                        range: [lowest, highest], unit: say.isGamma, move: p => put(of.back.x(p)),
                        step: d => put(rate * 1.1 ** d)});
  }, say.picture);
  const second = new Stage(root, 220, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [0, length], y: [1e-3, 10], logY: true, xName: say.time,
                                         yName: say.lossAtThisGamma});
    of.line(run.time, run.ofMean, {stroke: colour(0)});
    of.line(run.time, run.ofWorker, {stroke: colour(1)});
  }, say.picture2);
  key(root, [[say.meanModel, colour(0)], [say.aWorkersOwnModel, colour(1)],
             [say.theoryGammaD4n, "var(--text)", "6 5"]]);
  const table = numbers(root), c = controls(root);
  const put = gamma => {
    rate = Math.min(highest, Math.max(lowest, gamma));
    run = follow(rate);
    show();
  };
  const show = () => {
    const best = of => curve.reduce((a, b) => of(a) <= of(b) ? a : b).gamma;
    table.set({[say.meanModelLoss]: shown(run.mean), [say.aWorkersModelLoss]: shown(run.worker),
               [say.theoryGammaD4n]: shown(floor(rate)),
               [say.bestGammaForThe]: shown(best(r => r.mean), 2),
               [say.bestGammaForA]: shown(best(r => r.worker), 2)});
    stage.redraw();
    second.redraw();
  };
  const all = () => {
    curve = Array.from({length: points}, (_, k) =>
        follow(lowest * (highest / lowest) ** (k / (points - 1))));
    put(rate);
  };
  c.choice(say.graph, graphsOf(["ring", "exponential", "complete", "star"]), name,
           v => { name = v; all(); });
  c.choice(say.method, Object.entries(shared.methods), method,
           v => { method = v; all(); });
  c.slider(say.workers, {min: 4, max: 64, step: 4, value: n}, v => { n = v; all(); });
  c.slider(say.time, {min: 20, max: 300, step: 20, value: length}, v => { length = v; all(); });
  c.slider(say.momentum, {min: 0, max: .9, step: .1, value: momentum, show: v => v.toFixed(1)},
           v => { momentum = v; all(); });
  check(root, say.check);
  all();
};

sections.unlike = root => {
  const say = words.sections.unlike;
  guess(root, say.guess, 1);
  const n = 8, length = 400, slowest = 3;
  let slow = 10, equal = false, weight = .05, run = null, seed = 8;
  let targets = Engine.quadratic(n, {dims: 2, noise: 0, seed}).target.map(b => b.slice());
  const speeds = () => Array.from({length: n}, (_, i) => i === slowest ? 1 / slow : 1);
  const pointOf = rates => {
    const total = rates.reduce((a, b) => a + b, 0);
    return [0, 1].map(k => targets.reduce((sum, b, i) => sum + rates[i] * b[k] / total, 0));
  };
  const follow = () => {
    const graph = Engine.makeGraph("ring", n), r = speeds(), least = Math.min(...r);
    const problem = {dims: 2, start: [1, 1], gradient: (i, x) => Float64Array.from(x, (v, k) =>
        (v - targets[i][k]) * (equal ? least / r[i] : 1))};
    const s = new Engine.Simulation({graph, problem, speeds: r, learningRate: weight, seed});
    const path = [];
    const to = equal ? length * slow : length;
    for (let k = 0; k <= 400; ++k) {
      s.runUntil(to * k / 400);
      path.push(s.mean());
    }
    return {path, end: [0, 1].map(k => path.slice(200).reduce((sum, x) => sum + x[k] / 201, 0))};
  };
  const lossAt = x => {
    const best = pointOf(new Array(n).fill(1));
    return .5 * ((x[0] - best[0]) ** 2 + (x[1] - best[1]) ** 2);
  };
  const stage = new Stage(root, width => Math.min(420, width), (svg, width, height) => {
    const of = axes(svg, width, height, {x: [-2.5, 2.5], y: [-2.5, 2.5],
                                         xName: say.firstCoordinate,
                                         yName: say.secondCoordinate});
    of.line(run.path.map(x => x[0]), run.path.map(x => x[1]), {stroke: colour(0)});
    const cross = (x, shade) => {
      const [px, py] = [of.px(x[0]), of.py(x[1])];
      for (const s of [-1, 1])
        svg.append(make("line", {x1: px - 8, y1: py - 8 * s, x2: px + 8, y2: py + 8 * s,
                                 stroke: shade, "stroke-width": 3}));
    };
    targets.forEach((b, i) => {
      disc(svg, of.px(b[0]), of.py(b[1]), 10, i === slowest ? colour(1) : colour(5), i);
      stage.handles.push({key: `b${i}`, x: of.px(b[0]), y: of.py(b[1]), radius: 11,
        label: fill(say.theDataOf, {worker: i}), value: b,
        move: (x, y) => put(i, [of.back.x(x), of.back.y(y)]),
        step: (dx, dy) => put(i, [b[0] + dx / 10, b[1] + dy / 10])});
    });
    cross(pointOf(new Array(n).fill(1)), colour(2));
    cross(pointOf(speeds()), colour(3));
  }, say.picture);
  key(root, [[say.meanModel, colour(0)], [say.dataOfTheSlow, colour(1), "dot"],
             [say.dataOfTheOthers, colour(5), "dot"], [say.minimum, colour(2), "cross"],
             [say.sumRBSum, colour(3), "cross"]]);
  const table = numbers(root), c = controls(root);
  const put = (i, b) => {
    targets[i] = b.map(v => Math.min(2.4, Math.max(-2.4, v)));
    show();
  };
  const show = () => {
    run = follow();
    table.set({[say.lossAboveTheMinimum]: shown(lossAt(run.end), 3),
               [say.atSumRB]: shown(lossAt(pointOf(speeds())), 3),
               [say.gradientsOfAFast]: shown(slow, 2)});
    stage.redraw();
  };
  c.slider(say.worker3IsSlower, {min: 1, max: 20, step: 1, value: slow, show: v => `× ${v}`},
           v => { slow = v; show(); });
  c.slider(say.learningRateGamma, {min: .01, max: .2, step: .01, value: weight,
           show: v => v.toFixed(2)}, v => { weight = v; show(); });
  c.choice(say.steps, [["plain", say.allAlike], ["equal", say.weightedByLeastR]], "plain",
           v => { equal = v === "equal"; show(); });
  c.slider(say.seed, {min: 0, max: 30, value: seed}, v => {
    seed = v;
    targets = Engine.quadratic(n, {dims: 2, noise: 0, seed}).target.map(b => b.slice());
    show();
  });
  check(root, say.check);
  show();
};

sections.local = root => {
  const say = words.sections.local;
  guess(root, say.guess, 1);
  const methods = [["local-sgd", say.localSGD, colour(0)], ["diloco", say.diloco, colour(1)],
                   ["noloco", say.nolocoByPairs, colour(4)]];
  const dims = 8, steps = 300;
  let n = 16, period = 10, rate = .02, heterogeneity = 1, budget = 12, runs = [];
  const stage = new Stage(root, 320, (svg, width, height) => {
    const most = Math.max(...runs.map(r => r.sent.at(-1)));
    const of = axes(svg, width, height, {x: [0, most], y: [1e-3, 10], logY: true,
      xName: say.modelsThatAWorker, yName: say.lossOfTheMean});
    runs.forEach((r, m) => of.line(r.sent, r.loss, {stroke: methods[m][2]}));
    const x = of.px(Math.min(most, budget));
    svg.append(make("line", {x1: x, x2: x, y1: of.top, y2: of.bottom, stroke: "var(--soft)",
                             "stroke-dasharray": "3 4"}));
    disc(svg, x, of.bottom, 8, colour(2));
    stage.handles.push({key: "budget", x, y: of.bottom, radius: 10, label: say.whatMayBeSent,
                        value: budget, range: [0, most], unit: say.models,
                        move: p => put(of.back.x(p)), step: d => put(budget + d)});
  }, say.picture);
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = models => {
    budget = Math.min(Math.max(...runs.map(r => r.sent.at(-1))), Math.max(0, models));
    show();
  };
  const show = () => {
    const values = {};
    runs.forEach((r, m) => {
      const until = r.sent.filter(v => v <= budget + 1e-9).length - 1;
      const name = fill(say.lossFor, {method: methods[m][1], models: shown(budget, 3)});
      values[name] = shown(r.loss[until], 3);
    });
    runs.forEach((r, m) => {
      values[fill(say.distance, {method: methods[m][1]})] = shown(r.distance);
    });
    table.set(values);
    stage.redraw();
  };
  const all = () => {
    runs = methods.map(([method]) => {
      const problem = Engine.quadratic(n, {dims, heterogeneity});
      const s = new Rounds.LocalSteps({method, n, period, problem, learningRate: rate});
      const sent = [0], loss = [problem.loss(s.mean())];
      let late = 0;
      for (let t = 1; t <= steps; ++t) {
        s.step();
        sent.push(s.sent), loss.push(problem.loss(s.mean()));
        if (t >= steps / 3) late += s.distance() / (steps - steps / 3 + 1);
      }
      return {sent, loss, distance: late};
    });
    put(budget);
  };
  c.slider(say.ownStepsH, {min: 1, max: 50, value: period}, v => { period = v; all(); });
  c.slider(say.workers, {min: 2, max: 32, step: 2, value: n}, v => { n = v; all(); });
  c.slider(say.learningRateGamma, {min: .005, max: .1, step: .005, value: rate,
           show: v => v.toFixed(3)}, v => { rate = v; all(); });
  c.slider(say.howUnlikeTheData, {min: 0, max: 2, step: .25, value: heterogeneity,
           show: v => v.toFixed(2)}, v => { heterogeneity = v; all(); });
  check(root, say.check);
  all();
};
