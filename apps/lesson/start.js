// Fills the sections and the list of them. A section that is a page of its own has no number.
"use strict";
const everySection = document.querySelectorAll("section");
everySection.forEach((root, k) => {
  const title = root.querySelector("h2");
  if (everySection.length > 1) title.textContent = `${k + 1}. ${title.textContent}`;
  document.querySelector("nav").append(make("a", {href: `#${root.id}`}, title.textContent));
  sections[root.id](root);
});
