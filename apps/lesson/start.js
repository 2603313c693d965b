// Fills the sections and the list of them. A section that is a page of its own has no number. The
// address can hold the state of a section's sliders and choices: #noise?workers=32&graph=star.
"use strict";
const controlsOf = root => [...root.querySelectorAll(".controls label")].flatMap(label => {
  const input = label.querySelector("input[type=range], select");
  return input ? [{input, name: label.firstChild.textContent}] : [];
});
const isAtStart = input => input.tagName === "SELECT"
    ? [...input.options].every(o => o.selected === o.defaultSelected)
    : input.value === input.defaultValue;
const addressOf = root => {
  const changed = controlsOf(root).filter(c => !isAtStart(c.input));
  const state = new URLSearchParams(changed.map(c => [c.name, c.input.value]));
  return `#${root.id}${changed.length ? "?" : ""}${state}`;
};
const goTo = address => {
  const [id, state] = decodeURI(address).slice(1).split(/\?(.*)/s);
  const root = document.getElementById(id);
  if (!root || !state) return;
  const wanted = new URLSearchParams(state);
  for (const {input, name} of controlsOf(root)) {
    if (!wanted.has(name)) continue;
    input.value = wanted.get(name);
    input.dispatchEvent(new Event(input.tagName === "SELECT" ? "change" : "input"));
  }
  root.scrollIntoView();
};
const everySection = document.querySelectorAll("section");
everySection.forEach((root, k) => {
  const title = root.querySelector("h2");
  if (everySection.length > 1) title.textContent = `${k + 1}. ${title.textContent}`;
  document.querySelector("nav").append(make("a", {href: `#${root.id}`}, title.textContent));
  sections[root.id](root);
  const link = make("a", {href: `#${root.id}`}, "Link to this state of the section");
  const update = () => link.setAttribute("href", addressOf(root));
  for (const kind of ["input", "change"]) root.addEventListener(kind, update);
  root.append(make("p", {class: "soft link"}, link));
});
goTo(location.hash);
addEventListener("hashchange", () => goTo(location.hash));
