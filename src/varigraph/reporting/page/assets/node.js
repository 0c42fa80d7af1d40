// Everything about the chosen node.
function heading(node) {
  const made = [element("h2", { text: (nodes.names ? "" : "Node ") + nameOf(node) })];
  if (!classes) return made;
  const place = node * outputs + answer[node];
  const lines = element("p", {
    text: `${content.outputs[answer[node]]}: ${nodes.mean[place].toFixed(3)} ± ${short(nodes.std[place])}`,
  });
  made.push(lines);
  const known = verdict(node);
  if (known === "right") made.push(element("p", { class: "soft", text: "The answer is right." }));
  if (known === "wrong") made.push(element("p", { class: "missed", text: `Wrong: the truth is ${content.outputs[nodes.truth[node]]}.` }));
  return made;
}

function valuesKnown(node) {
  if (classes || !nodes.truth) return [];
  const truth = nodes.truth.slice(node * outputs, (node + 1) * outputs);
  if (truth.some((value) => value === null)) return [];
  return [element("p", { class: "soft", text: "True value: " + truth.map(short).join(", ") })];
}

function key() {
  const mark = (style, text) => element("span", {}, element("i", { style }), text);
  const parts = [
    mark("width:2.2rem;height:.6rem;background:linear-gradient(90deg,var(--calm),var(--tense))", "less to more uncertain, among all nodes"),
    mark("width:.8rem;height:.8rem;border-radius:50%;border:2px solid var(--wrong)", "answered wrongly"),
  ];
  if (links.prob) parts.push(mark("width:2rem;border-top:2px dashed var(--soft)", "link less likely than not; numbers are probabilities"));
  return element("div", { class: "key" }, ...parts);
}

function causeLine(cause, choose, node) {
  const bar = element("div", { class: "bar" }, element("i", { style: `width:${Math.min(100, 100 * cause.share)}%;background:var(--${cause.kind ?? "plain"})` }));
  const other = cause.ends ? cause.ends.find((end) => end !== node) : undefined;
  const what = other === undefined
    ? element("span", { text: cause.what })
    : element("button", { type: "button", text: cause.what, onclick: () => choose(other) });
  return element("li", {}, element("span", { text: percent(cause.share) }), element("div", {}, what, bar));
}

function causeList(node, choose) {
  const entry = content.causes.nodes[node];
  const made = [element("h3", { text: "What contributed most" })];
  if (!entry) return [...made, element("p", { class: "soft", text: content.causes.note })];
  const lines = entry.causes.map((cause) => causeLine(cause, choose, node));
  if (entry.rest > 0.0005) lines.push(causeLine({ what: "everything else", share: entry.rest }, choose, node));
  made.push(element("ul", { class: "causes" }, ...lines));
  if (entry.features.length) {
    const largest = entry.features.map((feature) => `${feature.what} (${percent(feature.share)})`).join(", ");
    made.push(element("p", { class: "soft", text: "Largest single features: " + largest + "." }));
  }
  made.push(element("p", { class: "soft", text: "Shares of the variance that the data causes, to first order; the weights count as certain. " + content.causes.note }));
  return made;
}

function showNode(node, choose) {
  const bars = element("div", { class: "chart", id: "answers" });
  const sources = element("div", { class: "chart thin", id: "split" });
  bars.style.height = `${70 + 24 * Math.max(3, Math.min(outputs, 24))}px`;
  const parts = content.parts.map((_, part) => nodes.sources[part][node]);
  const picture = links.source ? [neighbourhood(node, choose), key()] : [];
  byId("node").replaceChildren(
    ...heading(node), ...valuesKnown(node), bars,
    element("h3", { text: `Variance ${short(nodes.variance[node])}, by source` }), sources, splitKey(parts, nodes.variance[node]),
    element("h3", { text: "Neighbourhood" }), element("p", { class: "soft", text: neighbourhoodNote(node) }), ...picture,
    ...causeList(node, choose),
  );
  chart(bars, answers(node));
  chart(sources, split(parts, nodes.variance[node]));
}
