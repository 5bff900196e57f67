"use strict";
// The threshold and what follows from it: histograms, ROC curves, live rates, from the embedded scores.
(() => {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("scores").textContent);

  // ---------------------------------------------------------------- numbers

  // As the tables are printed: rounded to six digits first, then to two, exact halves to the even digit
  // (toFixed would round them up).
  function percent(share) {
    const value = Number((100 * share).toFixed(6));
    if ((value * 8) % 2 !== 1) return value.toFixed(2);
    const below = Math.floor(value * 100);
    return ((below % 2 === 0 ? below : below + 1) / 100).toFixed(2);
  }

  function short(value) {
    return Number.isFinite(value) ? String(Number(value.toPrecision(5))) : value > 0 ? "∞" : "−∞";
  }

  function unpack(packed) {
    if (packed.values) return packed.values;
    const bytes = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
    packed.values = packed.type === "f4" ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
    return packed.values;
  }

  // How many of the sorted scores are at or above the threshold.
  function accepted(sorted, threshold) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < threshold) low = middle + 1; else high = middle;
    }
    return sorted.length - low;
  }

  function thresholdAt(sorted, tpr) {
    return sorted[sorted.length - Math.ceil(tpr * sorted.length - 1e-9)];
  }

  // ---------------------------------------------------------------- drawing

  const histogram = element("histogram"), roc = element("roc");
  function draw(parent, tag, attributes, text) {
    const node = document.createElementNS(parent.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const first = Math.ceil(low / step);
    const places = [];
    for (let k = first; k * step <= high; k++) places.push(Number((k * step).toPrecision(12)));
    return places;
  }

  const plot = { left: 20, right: 700, top: 26, bottom: 300, bins: 60 };
  const view = { detector: null, set: 0, id: null, ood: null, threshold: 0 };
  const moving = {};

  const along = (score) => {
    const [low, high] = view.detector.range;
    return plot.left + Math.min(Math.max((score - low) / (high - low), 0), 1) * (plot.right - plot.left);
  };

  // Shares of the set, scores beyond the axis counted in its outermost bins.
  function binned(sorted) {
    const [low, high] = view.detector.range, counts = new Array(plot.bins).fill(0);
    for (const score of sorted) {
      const bin = Math.floor(((score - low) / (high - low)) * plot.bins);
      counts[Math.min(Math.max(bin, 0), plot.bins - 1)] += 1 / sorted.length;
    }
    return counts;
  }

  function outline(counts, top) {
    const width = (plot.right - plot.left) / plot.bins;
    let path = `M${plot.left} ${plot.bottom}`;
    counts.forEach((count, place) => {
      const y = plot.bottom - (count / top) * (plot.bottom - plot.top);
      path += `V${y.toFixed(1)}H${(plot.left + (place + 1) * width).toFixed(1)}`;
    });
    return `${path}V${plot.bottom}Z`;
  }

  function drawHistogram() {
    histogram.replaceChildren();
    const shares = [binned(view.id), binned(view.ood)];
    const top = Math.max(...shares[0], ...shares[1]);
    draw(histogram, "path", { class: "id", d: outline(shares[0], top) });
    draw(histogram, "path", { class: "ood", d: outline(shares[1], top) });
    draw(histogram, "line", { class: "axis", x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom });
    for (const tick of ticks(...view.detector.range, 6)) {
      draw(histogram, "text", { x: along(tick), y: plot.bottom + 20, "text-anchor": "middle" }, short(tick));
    }
    const middle = (plot.left + plot.right) / 2, label = `${view.detector.name} score: higher is more in-distribution`;
    draw(histogram, "text", { class: "label", x: middle, y: plot.bottom + 48, "text-anchor": "middle" }, label);
    draw(histogram, "text", { class: "label side", transform: `translate(12 ${(plot.top + plot.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "share of samples");
    moving.rejected = draw(histogram, "rect", { class: "rejected", x: plot.left, y: plot.top - 2, height: plot.bottom - plot.top + 1 });
    moving.cut = draw(histogram, "line", { class: "cut", y1: plot.top - 6, y2: plot.bottom });
    moving.grip = draw(histogram, "circle", { class: "grip", cy: plot.top - 6, r: 4.5 });
    moving.flagged = draw(histogram, "text", { class: "word", y: plot.top - 10, "text-anchor": "end" }, "flagged");
    moving.accepted = draw(histogram, "text", { class: "word", y: plot.top - 10 }, "accepted");
  }

  const frame = { left: 46, right: 342, top: 10, bottom: 320 };
  const across = (rate) => frame.left + rate * (frame.right - frame.left);
  const up = (rate) => frame.bottom - rate * (frame.bottom - frame.top);

  // One point for every step that can be seen; walks both sorted arrays from the top, ties together.
  function rocPath(id, ood) {
    let i = id.length, j = ood.length, seen = 0;
    let path = `M${across(0)} ${up(0)}`;
    while (i > 0 || j > 0) {
      const level = i > 0 && (j === 0 || id[i - 1] >= ood[j - 1]) ? id[i - 1] : ood[j - 1];
      while (i > 0 && id[i - 1] === level) i--;
      while (j > 0 && ood[j - 1] === level) j--;
      const fpr = 1 - j / ood.length, tpr = 1 - i / id.length;
      if (fpr + tpr - seen < 0.004 && (i > 0 || j > 0)) continue;
      seen = fpr + tpr;
      path += `L${across(fpr).toFixed(1)} ${up(tpr).toFixed(1)}`;
    }
    return path;
  }

  function drawRoc() {
    roc.replaceChildren();
    for (const share of [0, 0.5, 1]) {
      draw(roc, "text", { x: across(share), y: frame.bottom + 16, "text-anchor": "middle" }, String(100 * share));
      draw(roc, "text", { x: frame.left - 8, y: up(share) + 4, "text-anchor": "end" }, String(100 * share));
    }
    draw(roc, "path", { class: "axis", fill: "none", d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}` });
    draw(roc, "line", { class: "axis", x1: across(0), y1: up(0), x2: across(1), y2: up(1) });
    draw(roc, "text", { x: across(0.5), y: frame.bottom + 34, "text-anchor": "middle" }, "OOD accepted, %");
    draw(roc, "text", { transform: `translate(10 ${up(0.5)}) rotate(-90)`, "text-anchor": "middle" }, "ID accepted, %");
    for (const detector of data.detectors) {
      if (detector === view.detector) continue;
      const curve = draw(roc, "path", { class: "other", d: rocPath(unpack(detector.id), unpack(detector.ood[view.set])) });
      draw(curve, "title", {}, detector.name);
    }
    draw(roc, "path", { class: "chosen", d: rocPath(view.id, view.ood) });
    moving.guide = draw(roc, "path", { class: "guide", fill: "none" });
    moving.point = draw(roc, "circle", { class: "point", r: 6 });
  }

  // ---------------------------------------------------------------- threshold

  const slider = element("threshold"), steps = Number(slider.max);

  function update(threshold, fromSlider) {
    view.threshold = threshold;
    const counts = [accepted(view.id, threshold), accepted(view.ood, threshold)];
    const tpr = counts[0] / view.id.length, fpr = counts[1] / view.ood.length;
    const [low, high] = view.detector.range;
    if (!fromSlider) slider.value = Math.round(((threshold - low) / (high - low)) * steps);
    slider.dataset.threshold = String(threshold);
    slider.setAttribute("aria-valuetext", `${short(threshold)}: ${percent(tpr)} % of ID and ${percent(fpr)} % of OOD accepted`);
    element("lambda").textContent = short(threshold);
    element("tpr").textContent = percent(tpr);
    element("fpr").textContent = percent(fpr);
    element("tpr-count").textContent = `${counts[0].toLocaleString("en")} of ${view.id.length.toLocaleString("en")}`;
    element("fpr-count").textContent = `${counts[1].toLocaleString("en")} of ${view.ood.length.toLocaleString("en")}`;
    const x = along(threshold);
    moving.rejected.setAttribute("width", x - plot.left);
    for (const name of ["x1", "x2"]) moving.cut.setAttribute(name, x);
    moving.grip.setAttribute("cx", x);
    moving.flagged.setAttribute("x", x - 10);
    moving.accepted.setAttribute("x", x + 10);
    moving.flagged.setAttribute("visibility", x < 80 ? "hidden" : "visible");
    moving.accepted.setAttribute("visibility", x > 630 ? "hidden" : "visible");
    moving.point.setAttribute("cx", across(fpr));
    moving.point.setAttribute("cy", up(tpr));
    moving.guide.setAttribute("d", `M${frame.left} ${up(tpr)}H${across(fpr)}V${frame.bottom}`);
  }

  function choose() {
    view.detector = data.detectors[element("detector").selectedIndex];
    view.set = element("set").selectedIndex;
    view.id = unpack(view.detector.id);
    view.ood = unpack(view.detector.ood[view.set]);
    for (const shown of document.querySelectorAll("[data-metric]")) {
      shown.textContent = `${view.detector.metrics[shown.dataset.metric][view.set]} %`;
    }
    drawHistogram();
    drawRoc();
    update(thresholdAt(view.id, 0.95), false);
  }

  const scoreAt = (share) => view.detector.range[0] + (view.detector.range[1] - view.detector.range[0]) * share;
  slider.addEventListener("input", () => update(scoreAt(Number(slider.value) / steps), true));
  for (const button of document.querySelectorAll("[data-tpr]")) {
    button.addEventListener("click", () => update(thresholdAt(view.id, Number(button.dataset.tpr)), false));
  }
  function drag(event) {
    const box = histogram.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * histogram.viewBox.baseVal.width;
    update(scoreAt(Math.min(Math.max((x - plot.left) / (plot.right - plot.left), 0), 1)), false);
  }
  histogram.addEventListener("pointerdown", (event) => {
    histogram.setPointerCapture(event.pointerId);
    drag(event);
  });
  histogram.addEventListener("pointermove", (event) => {
    if (histogram.hasPointerCapture(event.pointerId)) drag(event);
  });
  element("detector").addEventListener("change", choose);
  element("set").addEventListener("change", choose);
  choose();
})();
