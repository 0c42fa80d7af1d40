// A node, its neighbours and theirs: links by their probability, nodes by their uncertainty.
const DRAWN = 24; // nodes of a ring that can be distinguished
const CROWD = 12; // neighbours beyond which theirs are left out
const LABELLED = 16; // links of a node whose probabilities can be read
const SVG = "http://www.w3.org/2000/svg";

// For every node the numbers of its links: those of node n are touching[start[n]] to touching[start[n + 1] - 1].
const links = content.links;
const start = new Int32Array(nodes.count + 1);
const touching = new Int32Array(links.source ? 2 * links.count : 0);
if (links.source) {
  for (const ends of [links.source, links.target]) for (const node of ends) start[node + 1]++;
  for (let node = 0; node < nodes.count; node++) start[node + 1] += start[node];
  const next = start.slice();
  for (let link = 0; link < links.count; link++) {
    touching[next[links.source[link]]++] = link;
    touching[next[links.target[link]]++] = link;
  }
}
const linksOf = (node) => Array.from(touching.subarray(start[node], start[node + 1]));
const chance = (link) => (links.prob ? links.prob[link] : 1);
const otherEnd = (link, node) => (links.source[link] === node ? links.target[link] : links.source[link]);

// All neighbours, the doubtful links first, then the uncertain nodes.
function neighboursOf(node) {
  const least = new Map();
  for (const link of linksOf(node)) {
    const other = otherEnd(link, node);
    least.set(other, Math.min(chance(link), least.get(other) ?? 1));
  }
  return [...least.keys()].sort((a, b) => least.get(a) - least.get(b) || nodes.rank[a] - nodes.rank[b]);
}

function shape(tag, attributes, title) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (title) {
    const tooltip = document.createElementNS(SVG, "title");
    tooltip.textContent = title;
    made.append(tooltip);
  }
  return made;
}

// From calm to tense by rank: the least trusted nodes of the graph are the reddest, and the largest.
const shade = (node) =>
  `color-mix(in oklab, var(--tense) ${Math.round(100 * (1 - rank[node]) ** 2)}%, var(--calm))`;

function drawLink(picture, link, from, to, { main, labelled = false }) {
  const p = chance(link);
  const arrow = links.oneWay && links.oneWay[link] ? " → " : " – ";
  const title = `${nameOf(links.source[link])}${arrow}${nameOf(links.target[link])}: probability ${short(p)}`;
  picture.append(shape("line", {
    x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "link", stroke: "var(--soft)",
    "stroke-width": (main ? 0.8 : 0.4) + 2.2 * p * (main ? 1 : 0.4), "stroke-opacity": main ? 0.35 + 0.6 * p : 0.3,
    "stroke-dasharray": p < 0.5 ? "4 4" : "none",
  }, title));
  if (!labelled || !links.prob) return;
  const label = shape("text", { x: 0.42 * from.x + 0.58 * to.x, y: 0.42 * from.y + 0.58 * to.y, "text-anchor": "middle", class: "chance" });
  label.textContent = p.toFixed(2);
  picture.append(label);
}

function drawNode(picture, node, at, centre, choose) {
  const known = verdict(node);
  const told = classes ? `${content.outputs[answer[node]]}, trust ${short(nodes.trust[node])}` : value(node);
  const text = `${nameOf(node)}: ${told}${known === "wrong" ? (classes ? ", wrong" : ", truth outside") : ""}`;
  const size = (centre ? 13 : 7) + 5 * (1 - rank[node]) ** 2;
  const disc = shape("circle", {
    cx: at.x, cy: at.y, r: size, fill: shade(node), class: centre ? "centre" : "other",
    stroke: known === "wrong" ? "var(--wrong)" : "var(--soft)", "stroke-width": centre ? 2.5 : 1.2,
  }, text);
  if (!centre) disc.addEventListener("click", () => choose(node));
  const label = shape("text", {
    x: at.x + (centre ? 0 : 15 * Math.cos(at.angle)), y: at.y + (centre ? 29 : 4 + 17 * Math.sin(at.angle)),
    "text-anchor": centre || Math.abs(Math.cos(at.angle)) < 0.3 ? "middle" : Math.cos(at.angle) > 0 ? "start" : "end",
  });
  const name = nameOf(node);
  label.textContent = name.length > 10 ? name.slice(0, 9) + "…" : name;
  picture.append(disc, label);
  if (known !== "wrong") return;
  const cross = shape("text", { x: at.x, y: at.y + 4, "text-anchor": "middle", class: "cross" });
  cross.textContent = "✗";
  picture.append(cross);
}

// The neighbours that are drawn and, where there is room, the nodes two steps away.
function rings(node) {
  const inner = neighboursOf(node).slice(0, DRAWN);
  const near = new Set([node, ...inner]);
  const outer = new Set(inner.flatMap(neighboursOf).filter((other) => !near.has(other)));
  return { inner, outer: inner.length > CROWD ? [] : [...outer].slice(0, DRAWN), beyond: outer.size };
}

function placed(node, { inner, outer }) {
  const places = new Map([[node, { x: 0, y: 0, angle: 0 }]]);
  const put = (other, radius, turn) => {
    const angle = 2 * Math.PI * turn - Math.PI / 2;
    places.set(other, { x: radius * Math.cos(angle), y: radius * Math.sin(angle), angle });
  };
  // The nodes beyond a single neighbour stay on its side, so that no line crosses the centre.
  const arc = inner.length === 1 ? 0.55 : 1;
  inner.forEach((other, place) => put(other, outer.length ? 95 : 165, place / inner.length));
  outer.forEach((other, place) => put(other, 185, arc * ((place + 0.5) / outer.length - (arc < 1 ? 0.5 : 0))));
  return places;
}

function neighbourhood(node, choose) {
  const places = placed(node, rings(node));
  const heights = [...places.values()].map((at) => at.y);
  const top = Math.min(...heights) - 35;
  const viewBox = `-280 ${top} 560 ${Math.max(...heights) + 40 - top}`;
  const picture = shape("svg", { id: "neighbourhood", viewBox, role: "img", "aria-label": `${nameOf(node)} and its neighbours. ${neighbourhoodNote(node)}` });
  const seen = new Set(linksOf(node));
  const labelled = seen.size <= LABELLED;
  for (const one of [...places.keys()].slice(1)) {
    for (const link of linksOf(one)) {
      const other = otherEnd(link, one);
      if (!seen.has(link) && places.has(other)) drawLink(picture, link, places.get(one), places.get(other), { main: false });
      seen.add(link);
    }
  }
  for (const link of linksOf(node)) {
    const other = otherEnd(link, node);
    if (places.has(other)) drawLink(picture, link, places.get(node), places.get(other), { main: true, labelled });
  }
  for (const [other, at] of places) drawNode(picture, other, at, other === node, choose);
  return picture;
}

function neighbourhoodNote(node) {
  if (!links.source) return `The graph has ${links.count.toLocaleString("en")} links, too many for a page to carry; none are drawn.`;
  const all = neighboursOf(node).length;
  if (all === 0) return "It has no neighbours.";
  const { inner, outer, beyond } = rings(node);
  const first = all > inner.length
    ? `${inner.length} of its ${all} neighbours are drawn, those with the most doubtful links and then the least trusted`
    : all === 1 ? "Its one neighbour is drawn" : `All ${all} neighbours are drawn`;
  const second = outer.length ? `, and ${outer.length} of ${beyond} nodes two steps away` : "";
  return first + second + ".";
}
