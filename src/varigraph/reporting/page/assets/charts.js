// The charts, drawn by plotly in the colours of the theme.
const drawn = new Map();

function layout(changes) {
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  const { xaxis = {}, yaxis = {}, ...others } = changes;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("text"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 50, r: 12, t: 12, b: 44 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("text") } },
    ...others,
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
  };
}

// Draws as soon as plotly is there, and again whenever the theme changes.
function chart(target, describe, says) {
  drawn.set(target, describe);
  if (says) {
    target.setAttribute("role", "img");
    target.setAttribute("aria-label", says);
  }
  if (!window.Plotly) return;
  const { data, layout: changes } = describe();
  Plotly.react(target, data, layout(changes), { displayModeBar: false, responsive: true });
}

function redraw() {
  for (const [target, describe] of drawn) {
    if (target.isConnected) chart(target, describe);
    else drawn.delete(target);
  }
}

// One bar, divided over the sources.
function split(values, total) {
  const shares = values.map((value) => (total > 0 ? value / total : 0));
  const below = shares.reduce((sum, share) => sum + Math.min(0, share), 0); // interactions may be negative
  return () => ({
    data: content.parts.map((part, place) => ({
      type: "bar", orientation: "h", name: part, y: [""], x: [shares[place]],
      marker: { color: partColour(part), pattern: { shape: PATTERNS[part] ?? "|", fgcolor: colour("panel"), fillmode: "overlay", solidity: 0.3, size: 7 } },
      hovertemplate: part + " %{x:.1%}<extra></extra>",
    })),
    layout: {
      barmode: "relative", bargap: 0, showlegend: false, margin: { l: 0, r: 0, t: 4, b: 4 },
      xaxis: { visible: false, range: [below, 1 - below] }, yaxis: { visible: false },
    },
  });
}

// The sources by name, each with its share.
function splitKey(values, total) {
  return element("div", { class: "key" }, ...content.parts.map((part, place) =>
    element("span", {}, signed(part), `${part} ${percent(total > 0 ? values[place] / total : 0)}`)));
}
const splitText = (values, total) => content.parts.map((part, place) => `${part} ${percent(total > 0 ? values[place] / total : 0)}`).join(", ");

function reliability(found) {
  const reach = (end) => found.observed.map((value, place) => Math.abs(found[end][place] - value));
  return () => ({
    data: [
      { x: [0, 1], y: [0, 1], mode: "lines", name: "as predicted", line: { color: colour("plain"), dash: "dash", width: 1 }, hoverinfo: "skip" },
      {
        x: found.predicted, y: found.observed, customdata: found.count, mode: "lines+markers", name: "observed, 95 % interval",
        line: { color: colour("ours") },
        error_y: { type: "data", symmetric: false, array: reach("high"), arrayminus: reach("low"), thickness: 1, width: 3 },
        hovertemplate: "trust %{x:.2f}<br>right %{y:.2f}<br>%{customdata} answers<extra></extra>",
      },
    ],
    layout: {
      xaxis: { title: { text: "trust" }, range: [0, 1.02] },
      yaxis: { title: { text: "share of right answers" }, range: [-0.02, 1.04] },
    },
  });
}

function risk(found) {
  const line = (name, label, shade, dash) => ({
    x: found[name].coverage, y: found[name].risk, mode: "lines", line: { color: colour(shade), dash, shape: "hv" },
    name: label + ", area " + found[name].area.toFixed(3),
    hovertemplate: "%{x:.0%} accepted, %{y:.1%} wrong<extra></extra>",
  });
  return () => ({
    data: [
      line("ours", "our trust", "ours", "solid"),
      ...(found.plain ? [line("plain", "plain softmax", "rival", "dot")] : []),
    ],
    layout: {
      xaxis: { title: { text: "share of answers accepted" }, tickformat: ".0%", range: [0, 1.02] },
      yaxis: { title: { text: "share of errors" }, tickformat: ".0%", rangemode: "tozero" },
    },
  });
}

function noise(found) {
  return () => ({
    data: content.parts
      .filter((part) => found.parts[part].some((value) => value !== 0))
      .map((part) => ({
        x: found.level, y: found.parts[part], name: part, mode: "lines+markers", stackgroup: "one",
        line: { color: partColour(part), width: 1 }, fillcolor: partColour(part),
        hovertemplate: part + " %{y:.3g}<extra></extra>",
      })),
    layout: {
      hovermode: "x",
      xaxis: { title: { text: "noise variance (% of the mean feature)" }, tickvals: found.level },
      yaxis: { title: { text: "mean variance of an answer" }, rangemode: "tozero", exponentformat: "power" },
    },
  });
}

// Powers of ten, or where there are few of them 1, 2 and 5 times these: plotly sets what lies between in tiny digits.
function logTicks(edges) {
  const [low, high] = [edges[0], edges.at(-1)].map(Math.log10);
  if (high - low >= 2) return { dtick: 1 };
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, step) => Math.floor(low) + step);
  const values = powers.flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
  return { tickvals: values, ticktext: values.map(short) };
}

function histogram(found) {
  const middle = found.right.map((_, place) => Math.sqrt(found.edges[place] * found.edges[place + 1]));
  const width = found.right.map((_, place) => found.edges[place + 1] - found.edges[place]);
  const bars = (counts, name, shade) => ({
    type: "bar", x: middle, y: counts, width, name, opacity: 0.9,
    marker: { color: colour(shade), pattern: { shape: shade === "wrong" ? "/" : "", fgcolor: colour("panel"), fillmode: "overlay", size: 6 } },
    hovertemplate: "%{y} near %{x:.2g}<extra>" + name + "</extra>",
  });
  return () => ({
    data: found.wrong
      ? [bars(found.right, "right", "right"), bars(found.wrong, "wrong", "wrong")]
      : [bars(found.right, "nodes", "right")],
    layout: {
      barmode: "stack", bargap: 0.05,
      xaxis: { type: "log", title: { text: "variance of the answer" }, exponentformat: "power", ...logTicks(found.edges) },
      yaxis: { title: { text: content.rows } },
    },
  });
}

// Values from low to high with their intervals; a truth outside is a cross.
function intervals(found) {
  const at = found.mean.map((_, place) => place);
  const missed = (place) => found.truth[place] < found.low[place] || found.truth[place] > found.high[place];
  const truth = (name, outside, symbol, shade) => {
    const shown = at.filter((place) => missed(place) === outside);
    return {
      x: shown, y: shown.map((place) => found.truth[place]), text: shown.map((place) => plain(nameOf(found.node[place]))), mode: "markers", name,
      marker: { color: colour(shade), symbol, size: outside ? 9 : 6 }, hovertemplate: "%{text}: truth %{y:.4g}<extra></extra>",
    };
  };
  return () => ({
    data: [
      {
        x: at, y: found.mean, text: found.node.map((node) => plain(nameOf(node))), mode: "markers", name: "answer, 90 % interval",
        marker: { color: colour("ours"), size: 5, symbol: "line-ew-open" },
        error_y: { type: "data", symmetric: false, array: at.map((i) => found.high[i] - found.mean[i]), arrayminus: at.map((i) => found.mean[i] - found.low[i]), thickness: 1.2, width: 0, color: colour("ours") },
        hovertemplate: "%{text}: %{y:.4g}<extra></extra>",
      },
      ...(found.truth ? [truth("truth inside", false, "circle", "plain"), truth("truth outside", true, "x", "wrong")] : []),
    ],
    layout: {
      xaxis: { title: { text: `${found.mean.length} of ${found.of} ${content.rows}, by value` }, showticklabels: false, showgrid: false, zeroline: false },
      yaxis: { title: { text: "value" } },
    },
  });
}

function answers(node) {
  const row = (values) => values.slice(node * outputs, (node + 1) * outputs);
  return () => ({
    data: [{
      type: "bar", x: row(nodes.mean), y: content.outputs.map(plain), orientation: "h",
      error_x: { type: "data", array: row(nodes.std), color: colour("text"), thickness: 1.2, width: 4 },
      marker: {
        color: content.outputs.map((_, k) => (classes && k !== answer[node] ? colour("right") : colour("accent"))),
        pattern: { shape: content.outputs.map((_, k) => (classes && k !== answer[node] ? "/" : "")), fgcolor: colour("panel"), fillmode: "overlay", size: 6, solidity: 0.25 },
      },
      hovertemplate: "%{x:.3f} ± %{error_x.array:.3f}<extra></extra>",
    }],
    layout: {
      margin: { l: 8, r: 12, t: 4, b: 34 },
      xaxis: classes ? { range: [0, 1.05], title: { text: "probability ± one std" } } : { title: { text: "value ± one std" } },
      yaxis: { autorange: "reversed", type: "category" },
    },
  });
}
