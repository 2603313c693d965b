// Stands at the end of a lesson whose words have the letter q alone, in
// tests/apps/lesson_test.cpp: uses all sections and looks for other letters.
"use strict";
{
  const seen = new Set();
  // What anyone is told: texts, names and values of what can be used, the title.
  const look = root => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());)
      if (!node.parentElement.closest("script, style, code")) seen.add(node.data);
    for (const name of ["aria-label", "aria-valuetext", "title", "alt", "placeholder"])
      for (const e of root.querySelectorAll(`[${name}]`)) seen.add(e.getAttribute(name));
  };
  // Numbers, variables, kinds of files, and names of the recorded runs are no words. Nor is the
  // text that tries to end a script.
  const recorded = JSON.parse(document.getElementById("runs").textContent).runs.map(r => r.name);
  const noWords = new RegExp(`\\d(\\.\\d+)?e[-+]?\\d+|^[xy]$|^x[₁₂] = |\\b(svg|png|csv)\\b|` +
                             `\\b(${recorded.join("|")})\\b|<.script>`, "g");
  const foreign = text => /(?!q)\p{L}/u.test(text.replace(noWords, ""));
  for (const root of document.querySelectorAll("section")) {
    const use = (input, value, kind) => {
      input.value = value;
      input.dispatchEvent(new Event(kind));
      look(root);
    };
    for (const d of root.querySelectorAll("details")) {
      d.open = true;
      d.dispatchEvent(new Event("toggle"));
    }
    for (const b of root.querySelectorAll(".guess button, .controls button")) b.click(), look(root);
    for (const s of root.querySelectorAll("input[type=range]")) use(s, s.min, "input");
    for (const s of root.querySelectorAll("select"))
      for (const o of s.options) use(s, o.value, "change");
    for (const h of root.querySelectorAll(".handle"))
      h.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
    look(root);
  }
  look(document.body);
  seen.add(document.title);
  document.body.append(make("pre", {id: "found"}, JSON.stringify({
    texts: seen.size, of_no_file: [...seen].filter(foreign),
    lang: document.documentElement.lang})));
}
