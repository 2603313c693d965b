// Fills the sections and the list of them. A section that is a page of its own has no number, and
// says what it is a part of. The address can hold the state of a section's sliders and choices:
// #noise?workers=32&graph=star.
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
document.documentElement.lang = words.lang;
document.title = words.title;
const contents = document.querySelector("nav"), heading = document.querySelector("h1");
contents.setAttribute("aria-label", words.page.list);
if (heading) {  // not on a page of one section
  heading.textContent = words.page.heading;
  document.getElementById("intro").append(make("p", {}, ...prose(words.page.intro)),
      make("p", {class: "soft"}, ...prose(words.page.about)));
}
const everySection = document.querySelectorAll("section");
everySection.forEach((root, k) => {
  const {title, intro} = words.sections[root.id];
  const numbered = everySection.length > 1 ? `${k + 1}. ${title}` : title;
  contents.append(make("a", {href: `#${root.id}`}, numbered));
  root.append(...(heading ? [make("h2", {}, numbered)] :
      [make("p", {class: "soft"}, words.page.heading), make("h1", {}, numbered)]),
              make("p", {}, ...prose(intro)));
  sections[root.id](root);
  const link = make("a", {href: `#${root.id}`}, words.page.link);
  const update = () => link.setAttribute("href", addressOf(root));
  for (const kind of ["input", "change"]) root.addEventListener(kind, update);
  root.append(make("p", {class: "soft link"}, link));
});
goTo(location.hash);
addEventListener("hashchange", () => goTo(location.hash));
