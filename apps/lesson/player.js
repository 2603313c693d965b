// The player of a run: lanes of workers over time, with a handle to move through it. Drawn from a
// file of `gossamer simulate ... --events`, which engine.js repeats, or from the trace of a run.
"use strict";

// What the parts of a trace are, by their names, in the colours of the section "who waits".
const kinds = [[words.player.steps, /^step$/], [words.player.waiting, /^wait |^meet$/],
               [words.player.transfers, /^transfer$/], [words.player.otherParts, /./]];
const kindColours = [colour(0), colour(1), colour(4), colour(5)];

// Adds a player to `root`: open(text, name) shows a file, and `more` is where its slider stands.
const player = root => {
  const say = words.player;
  let run = null, now = 0, end = 1, lanes = 0, title = "";
  const status = make("p", {class: "soft", role: "status"});
  const stage = new Stage(root, () => 60 + 22 * Math.min(lanes, 16), (svg, width, height) => {
    const left = 30, right = 10, at = t => left + (width - left - right) * t / end;
    const lane = i => 16 + (height - 50) * (i + .5) / lanes;
    for (let i = 0; i < lanes; ++i)
      svg.append(make("line", {x1: left, x2: width - right, y1: lane(i), y2: lane(i),
                               stroke: "var(--line)"}),
                 make("text", {x: 6, y: lane(i) + 4, class: "strong"}, i));
    for (const e of run.events) {
      const past = e.t <= now;  // what comes later is an outline
      const drawn = shade => ({fill: past ? shade : "none", stroke: shade,
                               "stroke-width": past ? 0 : .8});
      if (e.dur !== undefined)
        svg.append(make("rect", {x: at(e.t), y: lane(e.i) - 6, height: 12,
                                 width: Math.max(.7, at(e.t + e.dur) - at(e.t)),
                                 ...drawn(kindColours[e.kind])}));
      else if (e.event === "gradient")
        svg.append(make("circle", {cx: at(e.t), cy: lane(e.i), r: 2.5, ...drawn(colour(1))}));
      else if (e.event === "exchange" || e.event === "arrival") {
        const line = (y1, y2) => svg.append(make("line", {x1: at(e.t), x2: at(e.t), y1, y2,
                                                          stroke: colour(0),
                                                          "stroke-width": past ? 1.5 : .5}));
        const wrap = run.head.graph === "ring" && Math.abs(e.i - e.j) > lanes / 2;
        if (wrap) line(lane(0), lane(0) - 8), line(lane(lanes - 1), lane(lanes - 1) + 8);
        else line(lane(e.i), lane(e.j));
      }
    }
    svg.append(make("line", {x1: at(now), x2: at(now), y1: 6, y2: height - 26, stroke: colour(2),
                             "stroke-width": 2}),
               make("text", {x: left, y: height - 8}, "0"),
               make("text", {x: (left + width - right) / 2, y: height - 4,
                             "text-anchor": "middle"}, run.trace ? say.timeInSeconds : say.time),
               make("text", {x: width - right, y: height - 8, "text-anchor": "end"},
                    shown(end, 3)));
    disc(svg, at(now), height - 26, 8, colour(2));
    stage.handles.push({key: "now", x: at(now), y: height - 26, radius: 10, label: say.time,
                        value: now, range: [0, end],
                        unit: run.trace ? say.seconds : say.ofTime,
                        move: p => put((p - left) / (width - left - right) * end),
                        step: d => put(now + d * end / 100)});
  }, say.eventsOverTime);
  const values = new Stage(root, 180, (svg, width, height) => {
    if (run.trace) return;
    const all = run.state.flatMap(w => [w.x[0], w.twin ? w.twin[0] : w.x[0]]);
    const top = 1.1 * Math.max(1e-3, ...run.most ? [run.most] : all.map(Math.abs));
    const of = axes(svg, width, height, {x: [-.5, lanes - .5], y: [-top, top], xName: say.worker,
                                         yName: say.firstCoordinate});
    run.state.forEach((w, i) => {
      if (w.twin) svg.append(make("circle", {cx: of.px(i), cy: of.py(w.twin[0]), r: 5, fill: "none",
                                             stroke: colour(1), "stroke-width": 2}));
      svg.append(make("circle", {cx: of.px(i), cy: of.py(w.x[0]), r: 4, fill: colour(0)}));
    });
  }, say.valuesThen);
  const legend = root.appendChild(make("div"));
  const table = numbers(root);
  root.append(status);
  const c = controls(root);
  const put = t => { now = Math.min(end, Math.max(0, t)); slider.put(now / end); show(); };
  const show = () => {
    const past = run.events.filter(e => e.t <= now);
    if (run.trace) {
      const open = run.events.filter(e => e.t <= now && now < e.t + e.dur).map(e => e.name);
      table.set({[say.timeInSeconds]: shown(now, 4), [say.partsSoFar]: String(past.length),
                 [say.atThisMoment]: [...new Set(open)].slice(0, 3).join(", ") || say.nothing});
    } else {
      run.state = run.start.map(s => ({x: s.x, twin: run.head.method === "adpsgd" ? null : s.x}));
      for (const e of past) {
        run.state[e.i] = {x: e.x, twin: e.twin};
        if (e.other_x) run.state[e.j] = {x: e.other_x, twin: e.other_twin};
      }
      table.set({[say.time]: shown(now, 4), [say.eventsSoFar]: String(past.length),
                 [say.spread]: shown(Engine.spread(run.state.map(w => w.x))),
                 [say.difference]: shown(run.difference, 2)});
    }
    stage.redraw();
    values.redraw();
  };
  const open = (text, name) => {
    try {
      const isTrace = text.trimStart().startsWith("[") || text.includes("\"traceEvents\"");
      run = isTrace ? readTrace(text) : Engine.replay(text);
      lanes = isTrace ? run.lanes : run.head.workers;
      end = isTrace ? run.end : run.head.time;
      title = isTrace ? fill(say.traceOf, {name, processes: lanes}) :
          fill(say.runOf, {name, workers: lanes,
            graph: shared.graphs[run.head.graph] ?? run.head.graph,
            method: shared.methods[run.head.method] ?? run.head.method});
      if (!isTrace) run.most = Math.max(...run.start.map(s => Math.abs(s.x[0])));
      status.textContent = title;
      status.className = "soft";
      legend.replaceChildren();
      key(legend, isTrace ? kinds.map(([name], k) => [name, kindColours[k], "bar"])
                          : [[say.exchange, colour(0), "upright"], [say.gradient, colour(1), "dot"],
                             [say.x, colour(0), "dot"], [say.twin, colour(1), "ring"]]);
      values.hide(isTrace);
      put(end / 2);
    } catch (error) {
      status.textContent = `${name}: ${whyOf(error, {})}`;
      status.className = "error";
    }
  };
  // trace.json of a run: the parts with a duration, a lane for each process. Where parts lie in
  // others, the longer is drawn first.
  const readTrace = text => {
    const all = JSON.parse(text), list = Array.isArray(all) ? all : all.traceEvents;
    const parts = list.filter(e => e.ph === "X").sort((a, b) => a.ts - b.ts || b.dur - a.dur)
        .slice(0, 4000);
    if (!parts.length) throw new Error("noParts");
    const pids = [...new Set(parts.map(e => e.pid))].sort((a, b) => a - b), first = parts[0].ts;
    const events = parts.map(e => ({t: (e.ts - first) / 1e6, dur: e.dur / 1e6, name: e.name,
                                    i: pids.indexOf(e.pid),
                                    kind: kinds.findIndex(([, of]) => of.test(e.name))}));
    return {trace: true, events, lanes: pids.length,
            end: events.reduce((most, e) => Math.max(most, e.t + e.dur), 0) || 1};
  };
  const slider = c.slider(say.time, {min: 0, max: 1, step: .005, value: .5,
                          show: v => shown(v * end, 3)}, v => { now = v * end; show(); });
  return {open, more: c.box};
};
