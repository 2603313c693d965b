// Sections of the lesson: messages that are compressed, a worker that is broken.
"use strict";

sections.compress = root => {
  const say = words.sections.compress;
  guess(root, say.guess, 1);
  const methods = [["whole", say.allValues, colour(5)], ["kept", say.largestRestKept, colour(0)],
                   ["dropped", say.largestRestDropped, colour(1)]];
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
  const both = (mark, all, shades) => [["loss", say.lossOfTheMean],
                                       ["far", say.xMeanSquared]].map(([value, name]) => {
    const stage = new Stage(root, 200, (svg, width, height) => {
      const of = axes(svg, width, height, {x: [0, end], y: [1e-3, 100], logY: true,
                                           xName: say.step, yName: name});
      all().forEach((r, m) => of.line(times.slice(0, end), r[value].slice(0, end), {
        stroke: shades[m]}));
      mark(stage, of);
    }, name);
    return stage;
  });
  const shades = methods.map(m => m[2]);
  const first = both((stage, of) => {
    disc(stage.svg, of.right, of.bottom, 8, colour(2));
    stage.handles.push({key: "end", x: of.right, y: of.bottom, radius: 10, label: say.stepsShown,
                        value: end, range: [20, steps], unit: say.steps,
                        move: x => put(end + (x - of.right) / 4),
                        step: d => put(end + 10 * d)});
  }, () => runs, shades);
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = to => {
    end = Math.round(Math.min(steps, Math.max(20, to)));
    for (const s of [...first, ...second]) s.redraw();
  };

  root.append(make("h3", {}, say.oneBadWorker),
              make("p", {}, say.worker0IsBroken));
  const answers = [["clipped", say.clippedGossip, colour(0)],
                   ["mean", say.meanOfNeighbours, colour(1)]];
  const shades2 = answers.map(m => m[2]);
  const second = both((stage, of) => {
    const y = of.py(lying);
    disc(stage.svg, of.left, y, 8, colour(2));
    stage.handles.push({key: "lie", x: of.left, y, radius: 10, label: say.whatWorker0Sends,
                        value: lying, range: [.01, 50], unit: say.inAllValues,
                        step: (dx, dy) => lie(lying * 1.3 ** (dx + dy)),
                        move: (x, p) => lie(10 ** (
                            5 * (of.bottom - p) / (of.bottom - of.top) - 3))});
  }, () => three, shades2);
  key(root, answers.map(m => [m[1], m[2]]));
  const table2 = numbers(root), c2 = controls(root);
  let radius = .1, state = "broken";
  const bad = () => {
    three = answers.map(([kind]) => follow(new Rounds.Watched({graph, problem: problem(), kind,
      radius, learningRate: rate, bad: state === "well" ? -1 : 0,
      sends: state === "mirror" ? "mirror" : lying})));
    const values = {};
    three.forEach((r, m) => {
      values[fill(say.loss, {who: answers[m][1]})] = shown(r.meanLoss);
      values[fill(say.distance, {who: answers[m][1]})] = shown(r.meanFar);
    });
    table2.set(values);
    for (const s of second) s.redraw();
  };
  const lie = v => { lying = Math.min(50, Math.max(.01, v)); bad(); };
  c2.slider(say.radiusTau, {min: .01, max: .5, step: .01, value: radius, show: v => v.toFixed(2)},
            v => { radius = v; bad(); });
  c2.choice(say.worker0, [["broken", say.isBroken], ["mirror", say.sendsMirror],
                           ["well", say.isWell]], state, v => { state = v; bad(); });

  const all = () => {
    runs = methods.map(([kind]) => follow(new Rounds.Watched({graph, problem: problem(), kind,
      share, kappa: kind === "whole" ? 1 : kappa, learningRate: rate})));
    const values = {};
    runs.forEach((r, m) => {
      values[fill(say.distance, {who: methods[m][1]})] = shown(r.meanFar);
    });
    runs.forEach((r, m) => { values[fill(say.loss, {who: methods[m][1]})] = shown(r.meanLoss); });
    table.set(values);
    for (const s of first) s.redraw();
  };
  c.slider(say.partThatIsSent, {min: .125, max: 1, step: .125, value: share,
           show: v => v.toFixed(3)}, v => { share = v; all(); });
  c.slider(say.stepTowardsReplicasKappa, {min: .1, max: 1, step: .1, value: kappa,
           show: v => v.toFixed(1)}, v => { kappa = v; all(); });
  check(root, say.check);
  all();
  bad();
};
