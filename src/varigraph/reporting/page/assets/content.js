// What the page shows, and how its numbers, names and colours are written.
const content = JSON.parse(document.getElementById("content").textContent);
const outputs = content.outputs.length;
const classes = content.task === "classification";
const nodes = content.nodes;

const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const partColour = (part) => colour(part) || colour("plain"); // of a source that page.css does not know
const short = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());
const percent = (share) => (share !== 0 && Math.abs(share) < 0.001 ? "< 0.1 %" : (100 * share).toFixed(1) + " %");
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

const answer = nodes.answer ?? new Int32Array(nodes.count); // of all digits, not of those that are shown
const mainSource = Int8Array.from(nodes.variance, (variance, node) => {
  const parts = nodes.sources.map((part) => part[node]);
  return variance > 0 ? parts.indexOf(Math.max(...parts)) : -1;
});
const byVariance = Array.from(nodes.variance.keys()).sort((a, b) => nodes.variance[b] - nodes.variance[a]);
// Share of the nodes that are at least as uncertain, by which nodes are coloured and filtered.
const rank = new Float64Array(nodes.count);
byVariance.forEach((node, place) => {
  const before = place > 0 ? byVariance[place - 1] : -1;
  rank[node] = before >= 0 && nodes.variance[before] === nodes.variance[node] ? rank[before] : place / nodes.count;
});

function verdict(node) {
  if (!classes || !nodes.truth || nodes.truth[node] < 0) return "unknown";
  return nodes.truth[node] === answer[node] ? "right" : "wrong";
}
