// Sections of the lesson: messages that are compressed, a worker that is broken.
"use strict";

sections.compress = root => {
  guess(root, "Workers send only the largest quarter of their values. The rest is either " +
        "dropped, or kept until its turn comes. Where do they settle?",
        ["both at the same distance", "dropped: the small values never agree",
        "kept: further apart, for it is old"], 1,
        "What is dropped is never heard of, so small values are averaged with nobody. What is " +
        "kept grows until it is among the largest: every difference arrives, late.");
  const methods = [["whole", "all values", colour(5)], ["kept", "largest, rest kept", colour(0)],
                   ["dropped", "largest, rest dropped", colour(1)]];
  const n = 8, dims = 8, steps = 300, rate = .05, heterogeneity = 1;
  let share = .25, kappa = .4, end = 300, lying = 2, runs = [], three = [];
  const follow = s => {
    const loss = [], far = [];
    for (let t = 0; t < steps; ++t) {
      s.step();
      loss.push(s.loss()), far.push(s.distance());
    }
    const late = list => list.slice(steps / 3 - 1).reduce((a, b) => a + b, 0) /
        (steps - steps / 3 + 1);
    return {loss, far, meanLoss: late(loss), meanFar: late(far)};
  };
  const problem = () => Engine.quadratic(n, {dims, heterogeneity});
  const graph = Engine.makeGraph("ring", n);
  const times = Array.from({length: steps}, (_, k) => k + 1);
  // Two pictures of runs; mark(stage, of) adds what can be dragged.
  const both = (mark, all, shades) => [["loss", "loss of the mean model"],
                                       ["far", "(x − x̄)²"]].map(([value, name]) => {
    const stage = new Stage(root, 200, (svg, width, height) => {
      const of = axes(svg, width, height, {x: [0, end], y: [1e-3, 100], logY: true,
                                           xName: "step", yName: name});
      all().forEach((r, m) => of.line(times.slice(0, end), r[value].slice(0, end), {
        stroke: shades[m]}));
      mark(stage, of);
    }, name);
    return stage;
  });
  const shades = methods.map(m => m[2]);
  const first = both((stage, of) => {
    disc(stage.svg, of.right, of.bottom, 8, colour(2));
    stage.handles.push({key: "end", x: of.right, y: of.bottom, radius: 10, label: "steps shown",
                        value: end, range: [20, steps], unit: "steps",
                        move: x => put(end + (x - of.right) / 4),
                        step: d => put(end + 10 * d)});
  }, () => runs, shades);
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = to => {
    end = Math.round(Math.min(steps, Math.max(20, to)));
    for (const s of [...first, ...second]) s.redraw();
  };

  root.append(make("h3", {}, "One bad worker"),
              make("p", {}, "Worker 0 is broken: whatever it has computed, it sends a model " +
                   "whose values are all the number below. The others do not know. A mean " +
                   "believes it; clipped gossip lets no neighbour pull further than a radius τ."));
  const answers = [["clipped", "clipped gossip", colour(0)],
                   ["mean", "mean of neighbours", colour(1)]];
  const shades2 = answers.map(m => m[2]);
  const second = both((stage, of) => {
    const y = of.py(lying);
    disc(stage.svg, of.left, y, 8, colour(2));
    stage.handles.push({key: "lie", x: of.left, y, radius: 10, label: "what worker 0 sends",
                        value: lying, range: [.01, 50], unit: "in all values",
                        step: (dx, dy) => lie(lying * 1.3 ** (dx + dy)),
                        move: (x, p) => lie(10 ** (
                            5 * (of.bottom - p) / (of.bottom - of.top) - 3))});
  }, () => three, shades2);
  key(root, answers.map(m => [m[1], m[2]]));
  const table2 = numbers(root), c2 = controls(root);
  let radius = .1, broken = true;
  const bad = () => {
    three = answers.map(([kind]) => follow(new Rounds.Watched({graph, problem: problem(), kind,
      radius, learningRate: rate, bad: broken ? 0 : -1, sends: lying})));
    const values = {};
    three.forEach((r, m) => {
      values[`${answers[m][1]}: loss`] = shown(r.meanLoss);
      values[`${answers[m][1]}: (x − x̄)²`] = shown(r.meanFar);
    });
    table2.set(values);
    for (const s of second) s.redraw();
  };
  const lie = v => { lying = Math.min(50, Math.max(.01, v)); bad(); };
  c2.slider("radius τ", {min: .01, max: .5, step: .01, value: radius, show: v => v.toFixed(2)},
            v => { radius = v; bad(); });
  c2.choice("worker 0", [["broken", "is broken"], ["well", "is well"]], "broken",
            v => { broken = v === "broken"; bad(); });

  const all = () => {
    runs = methods.map(([kind]) => follow(new Rounds.Watched({graph, problem: problem(), kind,
      share, kappa: kind === "whole" ? 1 : kappa, learningRate: rate})));
    const values = {};
    runs.forEach((r, m) => { values[`${methods[m][1]}: (x − x̄)²`] = shown(r.meanFar); });
    runs.forEach((r, m) => { values[`${methods[m][1]}: loss`] = shown(r.meanLoss); });
    table.set(values);
    for (const s of first) s.redraw();
  };
  c.slider("part that is sent", {min: .125, max: 1, step: .125, value: share,
           show: v => v.toFixed(3)}, v => { share = v; all(); });
  c.slider("step towards replicas κ", {min: .1, max: 1, step: .1, value: kappa,
           show: v => v.toFixed(1)}, v => { kappa = v; all(); });
  root.append(make("p", {class: "check"}, "Drag the green dots. The loss of the mean model is ",
                   "that of its distance to the minimum: compression keeps the mean, a liar moves ",
                   "it. Check: ",
                   make("code", {}, "gossamer simulate quadratic --workers 8 --method choco " +
                        "--overlap 0 --compressed-share .25 --dims 8 --time 300 --seeds 1"),
                   " prints the same (x − x̄)² for the largest with the rest kept; ",
                   make("code", {}, "gossamer simulate quadratic --workers 8 --method " +
                        "clipped-gossip --clip-radius .1 --dims 8 --time 300 --seeds 1"),
                   " that of clipped gossip while worker 0 is well. The price of a small radius ",
                   "is that workers with unlike data do not agree either. Koloskova et al. 2019; ",
                   "He et al. 2022."));
  all();
  bad();
};
