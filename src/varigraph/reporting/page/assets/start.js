// Fills the page and listens to its reader.
const STEPS = { "": "all", 0.01: "least trusted 1 %", 0.05: "least trusted 5 %", 0.1: "least trusted 10 %", 0.25: "least trusted 25 %" };

function options(id, entries) {
  byId(id).append(...entries.map(([value, text]) => element("option", { value, text })));
}

function fillFilters() {
  const numbered = (names) => [["", "all"], ...names.map((name, number) => [number, name])];
  options("uncertainty", Object.entries(STEPS));
  options("source", numbered(actions.causes));
  options("answer", numbered(content.outputs));
  const truths = classes ? ["✓ answered rightly", "✗ answered wrongly"] : ["✓ within the interval", "✗ outside the interval"];
  options("verdict", [["", "all"], ["right", truths[0]], ["wrong", truths[1]], ["unknown", "unknown"]]);
  options("group", numbered(content.groups));
  options("explained", [["", "all"], ["yes", "with causes"]]);
  byId("answerLabel").hidden = !classes;
  byId("verdictLabel").hidden = !nodes.truth;
  byId("groupLabel").hidden = !nodes.group;
  byId("explainedLabel").hidden = Object.keys(content.causes.nodes).length === 0;
  byId("rows").classList.toggle("pairs", content.rows === "pairs");
  byId("rows").classList.toggle("values", !classes);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const FIGURES = [
  ["reliability", "Does trust hold?", () => `Trust against the share of right answers, ${content.scored}; on the dashed line it holds.`, reliability,
    (found) => "Trust and share of right answers: " + found.predicted.map((value, place) => `${short(value)}: ${short(found.observed[place])} of ${found.count[place]}`).join("; ")],
  ["risk", "What refusing does", () => "Share of errors when only the most trusted answers are accepted; lower is better.", risk,
    (found) => `Mean share of errors: by our trust ${short(found.ours.area)}` + (found.plain ? `, by the plain softmax ${short(found.plain.area)}` : "")],
  ["noise", "Variance against noise", () => "Mean variance of an answer by source, as the features get noisier.", noise,
    (found) => "Mean variance at each level of noise: " + found.level.map((level, place) => `${level} %: ${short(content.parts.reduce((sum, part) => sum + found.parts[part][place], 0))}`).join("; ")],
  ["histogram", "Variances of right and wrong answers", () => "How many answers have which variance.", histogram,
    (found) => `Answers by variance, from ${short(found.edges[0])} to ${short(found.edges[found.edges.length - 1])}`],
];

function addFigure(id, heading, about, describe, says) {
  const target = element("div", { class: "chart", id });
  byId("figures").append(element("figure", {}, element("figcaption", { text: heading }, element("small", { text: about })), target));
  chart(target, describe, `${heading}. ${says}`);
}

function fillFigures() {
  for (const [place, found] of (content.figures.intervals ?? []).entries()) {
    const heading = content.figures.intervals.length > 1 ? `Intervals of ${content.outputs[place]}` : "Intervals";
    const outside = found.truth ? found.truth.filter((truth, i) => truth < found.low[i] || truth > found.high[i]).length : 0;
    const says = found.truth ? `${outside} of ${found.truth.length} true values lie outside.` : `${found.mean.length} values with their intervals.`;
    addFigure(place === 0 ? "intervals" : `intervals${place}`, heading, "Answers from low to high with the interval that is to hold 90 % of the true values. " + says, intervals(found), says);
  }
  for (const [name, title, about, describe, says] of FIGURES) {
    const found = content.figures[name];
    if (!found) continue;
    addFigure(name, name === "histogram" && !found.wrong ? "Variances" : title, about(), describe(found), says(found));
  }
}

const TONES = { good: "✓", alarm: "!", note: "i" };
function fillVerdicts() {
  byId("verdicts").append(...content.verdicts.map(({ tone, title, text, advice }) => element("div", { class: `verdict ${tone}`, role: tone === "alarm" ? "alert" : "note" },
    element("i", { text: TONES[tone], "aria-hidden": "true" }),
    element("div", {}, element("b", { text: title }), ...(text ? [element("p", { text: unbroken(text) })] : []), ...(advice ? [element("p", { class: "advice", text: advice })] : [])))));
}

// What would help all answers together.
function fillTodo() {
  const lines = actions.whole.map(({ cause, share, remedy }) => element("li", {}, signed(actions.causes[cause]), `${remedy} (${actions.causes[cause]}: ${percent(share)} of all doubt)`));
  const plan = content.causes.plan ? [element("p", { class: "soft", text: unbroken(content.causes.plan) })] : [];
  const none = element("p", { class: "soft", text: "Nothing is uncertain here: no noise, no doubtful link, no dropout was given." });
  byId("todo").append(element("h3", { text: "What to do" }), ...(lines.length ? [element("ol", {}, ...lines)] : [none]), ...plan);
}

// Single causes, in all answers together.
function fillTogether() {
  const found = content.causes.together;
  if (found.length === 0) return;
  byId("together").append(element("h3", { text: "What matters most in all answers together" }),
    element("ul", { class: "causes" }, ...found.map((cause) => causeLine(cause, choose, -1))));
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
  byId("clear").addEventListener("click", clearFilters);
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
fillVerdicts();
fillTodo();
fillTogether();
const shares = content.parts.map((part) => content.headline.shares[part]);
chart(byId("shares"), split(shares, 1), "Variance by source: " + splitText(shares, 1));
byId("shares").after(splitKey(shares, 1));
fillFilters();
renderHeader();
fillFigures();
listen();
filter();
if (nodes.count) choose(state.shown[0]);
