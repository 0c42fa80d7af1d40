// The table of nodes. Only the rows in view exist, so that any number of nodes stays quick.
const ROW = 34; // height of a row, as the style has it
const EXTRA = 8; // rows kept ready above and below
const state = { shown: [], by: "trust", falling: false, chosen: -1 };

const place = (node) => node * outputs + answer[node];
const value = (node) => withBar(nodes.mean[place(node)], nodes.std[place(node)]);
const range = (node) => [nodes.low, nodes.high].map((end) => beside(end[place(node)], nodes.std[place(node)])).join(" to ");
const columns = [
  { key: "node", label: content.rows === "pairs" ? "Pair" : "Node", value: (node) => (nodes.names ? nodes.names[node] : node), text: nameOf },
  ...(classes
    ? [
      { key: "answer", label: "Answer", value: (node) => content.outputs[answer[node]], text: (node) => MARKS[verdict(node)] + content.outputs[answer[node]], missed: true },
      { key: "confidence", label: "Probability", value: (node) => nodes.mean[place(node)], text: (node) => `${nodes.mean[place(node)].toFixed(2)} ± ${nodes.std[place(node)].toFixed(2)}` },
      { key: "trust", label: "Trust", value: (node) => nodes.rank[node], text: (node) => nodes.trust[node].toFixed(2) },
    ]
    : [
      { key: "answer", label: "Value", value: (node) => nodes.mean[place(node)], text: value },
      ...(nodes.low ? [{ key: "interval", label: "90 % interval", value: (node) => nodes.high[place(node)] - nodes.low[place(node)], text: (node) => MARKS[verdict(node)] + range(node), missed: true }] : []),
      { key: "trust", label: "Least trusted", roomy: true, value: (node) => nodes.rank[node], text: (node) => (alike ? "all alike" : `${nodes.rank[node] + 1} of ${nodes.count}`) },
    ]),
  { key: "source", label: "Mainly due to", roomy: true, value: causeOf, text: (node) => (actions.main[node] < 0 ? "nothing" : `${causeOf(node)}, ${Math.round(100 * actions.share[node])}\u00a0%`), sign: true },
  { key: "help", label: "What would help", roomy: true, value: remedyOf, text: remedyOf },
];

function cell(shown, node) {
  const made = element("td", { text: shown.text(node) });
  if (shown.roomy) made.classList.add("roomy");
  if (shown.missed && verdict(node) === "wrong") made.classList.add("missed");
  made.title = made.textContent;
  if (shown.sign && actions.main[node] >= 0) made.prepend(signed(causeOf(node)));
  return made;
}

function row(node) {
  const made = element("tr", { class: "node", "data-node": node, "aria-selected": node === state.chosen, onclick: () => choose(node) });
  made.append(...columns.map((shown) => cell(shown, node)));
  return made;
}

const space = (rows) => element("tr", { class: "space", style: `height:${rows * ROW}px` }, element("td"));

function renderRows() {
  const view = byId("rows");
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - EXTRA);
  const last = Math.min(state.shown.length, first + Math.ceil(view.clientHeight / ROW) + 2 * EXTRA);
  byId("rows").hidden = state.shown.length === 0;
  byId("nothing").hidden = state.shown.length > 0;
  byId("body").replaceChildren(space(first), ...state.shown.slice(first, last).map(row), space(state.shown.length - last));
}

function renderHeader() {
  byId("columns").replaceChildren(...columns.map((shown) => {
    const sorted = state.by === shown.key;
    const arrow = sorted ? (state.falling ? " ▾" : " ▴") : "";
    const button = element("button", { type: "button", text: shown.label + arrow, onclick: () => sortBy(shown.key) });
    const made = element("th", { scope: "col", "aria-sort": sorted ? (state.falling ? "descending" : "ascending") : "none", "data-column": shown.key }, button);
    if (shown.roomy) made.classList.add("roomy");
    return made;
  }));
}

function sortBy(key) {
  state.falling = state.by === key ? !state.falling : key === "interval";
  state.by = key;
  renderHeader();
  filter();
}

function sorted(found) {
  const { value } = columns.find((shown) => shown.key === state.by);
  const keys = new Map(found.map((node) => [node, value(node)]));
  const sign = state.falling ? -1 : 1;
  const order = new Intl.Collator("en", { numeric: true });
  const words = found.length > 0 && typeof keys.get(found[0]) === "string";
  return found.sort((a, b) => {
    const difference = words ? order.compare(keys.get(a), keys.get(b)) : keys.get(a) - keys.get(b);
    return sign * difference || a - b;
  });
}

function filter() {
  const text = byId("search").value.trim().toLowerCase();
  const wanted = Object.fromEntries(["uncertainty", "source", "answer", "verdict", "group", "explained"].map((id) => [id, byId(id).value]));
  const fits = (node) =>
    (!text || nameOf(node).toLowerCase().includes(text) || String(node) === text) &&
    (!wanted.uncertainty || rank[node] < Number(wanted.uncertainty)) &&
    (!wanted.source || actions.main[node] === Number(wanted.source)) &&
    (!wanted.answer || answer[node] === Number(wanted.answer)) &&
    (!wanted.verdict || verdict(node) === wanted.verdict) &&
    (!wanted.group || nodes.group[node] === Number(wanted.group)) &&
    (!wanted.explained || node in content.causes.nodes);
  state.shown = sorted(byTrust.filter(fits));
  byId("matches").textContent = `${state.shown.length.toLocaleString("en")} of ${nodes.count.toLocaleString("en")} ${content.rows}`;
  byId("rows").scrollTop = 0;
  renderRows();
}

function clearFilters() {
  for (const field of byId("filters").elements) field.value = "";
  filter();
}

function choose(node) {
  state.chosen = node;
  showNode(node, choose);
  renderRows();
}

function move(step) {
  const at = state.shown.indexOf(state.chosen);
  const next = Math.max(0, Math.min(state.shown.length - 1, at + step));
  if (state.shown.length === 0 || next === at) return;
  const view = byId("rows");
  const room = view.clientHeight - 2 * ROW; // the header covers one row
  view.scrollTop = Math.min(next * ROW, Math.max(view.scrollTop, next * ROW - room + ROW));
  choose(state.shown[next]);
}
