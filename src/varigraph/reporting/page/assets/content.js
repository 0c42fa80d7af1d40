// What the page shows, and how its numbers, names and colours are written.
const content = JSON.parse(document.getElementById("content").textContent);
const outputs = content.outputs.length;
const classes = content.task === "classification";
const nodes = content.nodes;

const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const partColour = (part) => colour(part) || colour("plain"); // of a source that page.css does not know
const short = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());
// Decimals that an error bar of two digits has; values beside it have as many.
const decimals = (std) => (std > 0 ? Math.max(0, Math.min(12, 1 - Math.floor(Math.log10(std)))) : 3);
const beside = (value, std) => (std > 0 && std < 1e5 ? value.toFixed(decimals(std)) : short(value));
const withBar = (value, std) => `${beside(value, std)} ± ${std > 0 ? beside(Number(std.toPrecision(2)), std) : 0}`;
const percent = (share) => (share !== 0 && Math.abs(share) < 0.001 ? "< 0.1" : (100 * share).toFixed(1)) + "\u00a0%"; // never at the start of a line
const unbroken = (text) => text.replaceAll(" %", "\u00a0%");
const nameOf = (node) => (nodes.names ? nodes.names[node] : String(node));
// plotly reads a few tags in its labels; a name is never one of them.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// An element with text or children: never HTML, so that a name is shown as it is.
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Sources are told apart by a sign and a pattern as well as by their colour.
const SIGNS = { features: "■", links: "▲", weights: "●", interactions: "◆", residual: "✚", "the network itself": "○" };
const PATTERNS = { features: "", links: "/", weights: ".", interactions: "x", residual: "+" };
const signOf = (part) => SIGNS[part] ?? "◇";
const signed = (part) => element("i", { class: "sign", text: signOf(part), style: `color:var(--${cssName(part)}, var(--plain))`, "aria-hidden": "true" });
const cssName = (part) => part.replace(/[^a-z_-]/gi, "-");

const answer = nodes.answer; // of all digits, not of those that are shown
const actions = content.actions;
const causeOf = (node) => (actions.main[node] < 0 ? "nothing" : actions.causes[actions.main[node]]);
const remedyOf = (node) => (actions.main[node] < 0 ? "" : actions.remedies[actions.main[node]]);
const byTrust = Array.from(nodes.rank.keys()).sort((a, b) => nodes.rank[a] - nodes.rank[b] || a - b);
const alike = nodes.count > 1 && nodes.rank.every((place) => place === 0); // all are trusted as much
// Share of the nodes that are trusted less, by which nodes are coloured and filtered.
const rank = Float64Array.from(nodes.rank, (place) => (alike ? 0.5 : place / nodes.count));

// Whether the truth lies in the interval, of all outputs; null where one is not known.
function held(node) {
  if (!nodes.low || !nodes.truth) return null;
  const places = Array.from({ length: outputs }, (_, output) => node * outputs + output);
  if (places.some((at) => nodes.truth[at] === null)) return null;
  return places.every((at) => nodes.low[at] <= nodes.truth[at] && nodes.truth[at] <= nodes.high[at]);
}

function verdict(node) {
  if (!classes) {
    const inside = held(node);
    return inside === null ? "unknown" : inside ? "right" : "wrong";
  }
  if (!nodes.truth || nodes.truth[node] < 0) return "unknown";
  return nodes.truth[node] === answer[node] ? "right" : "wrong";
}
const MARKS = { right: "✓ ", wrong: "✗ ", unknown: "" };
