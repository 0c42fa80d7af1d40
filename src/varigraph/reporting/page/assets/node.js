// Everything about the chosen node.
function heading(node) {
  const made = [element("h2", { text: (nodes.names ? "" : "Node ") + nameOf(node) })];
  if (!classes) {
    const interval = nodes.low ? `, 90 % interval ${range(node)}` : "";
    return [...made, element("p", { text: `${content.outputs[answer[node]]}: ${value(node)}${interval}` })];
  }
  const line = `${content.outputs[answer[node]]}: ${value(node)}, trust ${nodes.trust[node].toFixed(2)}`;
  made.push(element("p", { text: line }));
  const known = verdict(node);
  if (known === "right") made.push(element("p", { class: "soft", text: "✓ The answer is right." }));
  if (known === "wrong") made.push(element("p", { class: "missed", text: `✗ Wrong: the truth is ${content.outputs[nodes.truth[node]]}.` }));
  return made;
}

function valuesKnown(node) {
  if (classes || !nodes.truth) return [];
  const truth = nodes.truth.slice(node * outputs, (node + 1) * outputs);
  if (truth.some((value) => value === null)) return [];
  const outside = verdict(node) === "wrong";
  const told = outside ? "✗ outside the interval" : "✓ within the interval";
  return [element("p", { class: outside ? "missed" : "soft", text: `True value: ${truth.map(short).join(", ")}, ${told}` })];
}

// What would help this node, the causes that weigh most first.
function todo(node) {
  const entry = content.causes.nodes[node];
  const steps = entry
    ? entry.causes.filter((cause) => cause.do && cause.share >= 0.05).slice(0, 3).map((cause) => `${cause.what}: ${cause.do} (${percent(cause.share)} of the variance)`)
    : [];
  const main = actions.main[node] < 0 ? [] : [`${remedyOf(node)} (${causeOf(node)}: ${percent(actions.share[node])} of the doubt)`];
  const lines = [...main, ...steps];
  if (lines.length === 0) return [];
  return [element("h3", { text: "What to do" }), element("ol", {}, ...lines.map((text) => element("li", { text })))];
}

function key() {
  const mark = (style, text) => element("span", {}, element("i", { style }), text);
  const parts = [
    mark("width:2.2rem;height:.6rem;background:linear-gradient(90deg,var(--calm),var(--tense))", "more to less trusted, among all; larger is less"),
    ...(nodes.truth ? [element("span", {}, element("b", { class: "missed", text: "✗ " }), classes ? "answered wrongly" : "truth outside the interval")] : []),
  ];
  if (links.prob) parts.push(mark("width:2rem;border-top:2px dashed var(--soft)", "link less likely than not; numbers are probabilities"));
  return element("div", { class: "key" }, ...parts);
}

function causeLine(cause, choose, node) {
  const bar = element("div", { class: "bar" }, element("i", { style: `width:${Math.min(100, 100 * cause.share)}%;background:var(--${cssName(cause.kind ?? "plain")}, var(--plain))` }));
  const other = cause.ends ? cause.ends.find((end) => end !== node) : undefined;
  const what = other === undefined
    ? element("span", { text: cause.what })
    : element("button", { type: "button", text: cause.what, onclick: () => choose(other) });
  const sign = cause.kind ? [signed(cause.kind)] : [];
  return element("li", {}, element("span", { text: percent(cause.share) }), element("div", {}, ...sign, what, bar));
}

function causeList(node, choose) {
  const entry = content.causes.nodes[node];
  const made = [element("h3", { text: "What its variance is due to" })];
  if (!entry) return [...made, element("p", { class: "soft", text: content.causes.note })];
  const lines = entry.causes.map((cause) => causeLine(cause, choose, node));
  if (entry.rest > 0.0005) lines.push(causeLine({ what: "everything else", share: entry.rest }, choose, node));
  made.push(element("ul", { class: "causes" }, ...lines));
  if (entry.features.length) {
    const largest = entry.features.map((feature) => `${feature.what} (${percent(feature.share)})`).join(", ");
    made.push(element("p", { class: "soft", text: "Largest single features: " + largest + "." }));
  }
  made.push(element("p", { class: "soft", text: "Shares of the whole variance of this answer; they add up to 100 %. What features and links cause is divided over single ones to first order. " + content.causes.note }));
  return made;
}

function picture(node, choose) {
  if (content.rows === "pairs") return [];
  const drawing = links.source ? [neighbourhood(node, choose), key()] : [];
  return [element("h3", { text: "Neighbourhood" }), element("p", { class: "soft", text: neighbourhoodNote(node) }), ...drawing];
}

function showNode(node, choose) {
  const bars = element("div", { class: "chart", id: "answers" });
  const sources = element("div", { class: "chart thin", id: "split" });
  bars.style.height = `${70 + 24 * Math.max(3, Math.min(outputs, 24))}px`;
  const parts = content.parts.map((_, part) => nodes.sources[part][node]);
  const variance = nodes.variance[node];
  const blocks = [
    todo(node),
    [element("h3", { text: classes ? "Probabilities" : "Values" }), bars],
    [element("h3", { text: `Variance of the answer ${short(variance)}, by source` }), sources, splitKey(parts, variance)],
    content.rows === "pairs" ? [] : causeList(node, choose),
    picture(node, choose),
  ].filter((block) => block.length);
  byId("node").replaceChildren(...heading(node), ...valuesKnown(node),
    element("div", { class: "halves" }, ...blocks.map((block) => element("div", {}, ...block))));
  chart(bars, answers(node), `${nameOf(node)}: ` + content.outputs.map((name, k) => `${name} ${short(nodes.mean[node * outputs + k])} ± ${short(nodes.std[node * outputs + k])}`).join(", "));
  chart(sources, split(parts, variance), "Variance by source: " + splitText(parts, variance));
}
