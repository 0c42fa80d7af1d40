// Fills the page and listens to its reader.
const STEPS = { "": "all", 0.01: "most uncertain 1 %", 0.05: "most uncertain 5 %", 0.1: "most uncertain 10 %", 0.25: "most uncertain 25 %" };

function options(id, entries) {
  byId(id).append(...entries.map(([value, text]) => element("option", { value, text })));
}

function fillFilters() {
  const numbered = (names) => [["", "all"], ...names.map((name, number) => [number, name])];
  options("uncertainty", Object.entries(STEPS));
  options("source", numbered(content.parts));
  options("answer", numbered(content.outputs));
  options("verdict", [["", "all"], ["right", "answered rightly"], ["wrong", "answered wrongly"], ["unknown", "unknown"]]);
  options("group", numbered(content.groups));
  options("explained", [["", "all"], ["yes", "with causes"]]);
  byId("answerLabel").hidden = !classes;
  byId("verdictLabel").hidden = !classes || !nodes.truth;
  byId("groupLabel").hidden = !nodes.group;
}

const FIGURES = [
  ["reliability", "Reliability", () => `Confidence against the share of right answers, ${content.scored}.`, reliability],
  ["risk", "Risk and coverage", () => "Share of errors when only the most certain nodes are accepted; lower is better. Confidence is the highest expected probability.", risk],
  ["noise", "Variance against noise", () => "Mean variance of an answer by source, as the features get noisier.", noise],
  ["histogram", "Variances of right and wrong answers", () => "Variance of a node: that of its answers, added up.", histogram],
];

function fillFigures() {
  for (const [name, title, about, describe] of FIGURES) {
    const found = content.figures[name];
    if (!found) continue;
    const heading = name === "histogram" && !found.wrong ? "Variances" : title;
    const target = element("div", { class: "chart", id: name });
    byId("figures").append(element("figure", {}, element("figcaption", { text: heading }, element("small", { text: about() })), target));
    chart(target, describe(found));
  }
}

function fillText() {
  byId("warnings").hidden = content.warnings.length === 0;
  byId("warnings").append(...content.warnings.map((text) => element("li", { text })));
  byId("cards").append(...content.headline.cards.map(({ label, value, hint }) =>
    element("div", { class: "card" }, element("span", { text: label }), element("b", { text: value }), element("span", { text: hint }))));
  for (const [name, value] of content.making.lines) byId("lines").append(element("dt", { text: name }), element("dd", { text: value }));
  byId("audit").classList.toggle("words", !content.making.audit);
  byId("audit").textContent = content.making.audit ?? "Not audited: vg.audit compares the method with brute force.";
}

function listen() {
  window.addEventListener("load", redraw); // plotly is large and comes last: text and table need not wait
  byId("filters").addEventListener("input", filter);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("rows").addEventListener("scroll", renderRows, { passive: true });
  byId("rows").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    move(step);
  });
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redraw();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
setTheme(dark.matches ? "dark" : "light");
fillText();
const shares = content.parts.map((part) => content.headline.shares[part]);
chart(byId("shares"), split(shares, 1));
byId("shares").after(splitKey(shares, 1));
fillFilters();
renderHeader();
fillFigures();
listen();
filter();
if (nodes.count) choose(state.shown[0]);
