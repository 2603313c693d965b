// Fills the sections and the list of them.
"use strict";
for (const root of document.querySelectorAll("section")) {
  const title = root.querySelector("h2"), number = document.querySelectorAll("nav a").length + 1;
  title.textContent = `${number}. ${title.textContent}`;
  document.querySelector("nav").append(make("a", {href: `#${root.id}`}, title.textContent));
  sections[root.id](root);
}
