"use strict";

// Everything that comes from outside (names of files, classes, errors) is set as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const AT_ONCE = 4;
const find = (id) => document.getElementById(id);
let token = null;
let about = null;

const count = new Intl.NumberFormat("en");
const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;

async function ask(path, options = {}) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { ...options, headers });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw Object.assign(new Error(said.detail || `The service answered ${answer.status}.`), { status: answer.status });
  }
  return said;
}

async function begin() {
  problem(null);
  try {
    about = await ask("v1/guard");
  } catch (error) {
    find("token-form").hidden = error.status !== 401;
    find("about").textContent = error.status === 401 ? "This service is for those who have its token." : "";
    if (error.status !== 401) problem(error.message);
    else if (token !== null) problem("That is not its token.");
    return;
  }
  find("token-form").hidden = true;
  const rate = percent(about.false_alarm_rate);
  find("about").textContent =
    `${about.title}. Of inputs like the ${count.format(about.calibration)} it was calibrated on, at most ${rate} are flagged.`;
  find("drop").hidden = !about.takes_pictures;
  if (!about.takes_pictures) {
    problem(`This guard knows no model and judges features of width ${about.features}, not pictures: see the API.`);
  }
}

function problem(text) {
  find("problem").hidden = text === null;
  find("problem").textContent = text ?? "";
}

async function judge(files) {
  if (about === null || !about.takes_pictures) return;
  problem(null);
  const waiting = [...files].map((file) => ({ file, card: makeCard(file) }));
  find("results").prepend(...waiting.map(({ card }) => card));
  let done = 0;
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await judgeOne(next.file, next.card);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  find("progress").textContent = done === 1 ? "One picture was judged." : `${done} pictures were judged.`;
}

async function judgeOne(file, card) {
  const form = new FormData();
  form.append("pictures", file, file.name);
  try {
    const said = await ask("v1/score?explain=true", { method: "POST", body: form });
    show(card, said.results[0], said.false_alarm_rate);
  } catch (error) {
    if (error.status === 401) begin();
    refuse(card, "No answer", error.message);
  }
}

function makeCard(file) {
  const card = find("card").content.firstElementChild.cloneNode(true);
  const image = card.querySelector(".thumb");
  const address = URL.createObjectURL(file);
  image.addEventListener("load", () => URL.revokeObjectURL(address));
  image.addEventListener("error", () => {
    URL.revokeObjectURL(address);
    image.classList.add("absent"); // a format that browsers do not show, or no picture
  });
  image.src = address;
  card.querySelector(".name").textContent = file.name;
  card.querySelector(".class").textContent = "…";
  card.querySelector(".verdict").hidden = true;
  card.querySelector(".scale").toggleAttribute("hidden", true);
  card.classList.add("waiting", "plain");
  return card;
}

function refuse(card, verdict, reason) {
  card.classList.remove("waiting");
  card.classList.add("none");
  card.querySelector(".class").hidden = true;
  tell(card, verdict);
  card.querySelector(".words").textContent = reason;
}

function tell(card, verdict) {
  const place = card.querySelector(".verdict");
  place.hidden = false;
  place.textContent = verdict;
}

function show(card, entry, rate) {
  card.classList.remove("waiting");
  if (entry.verdict === "unreadable") return refuse(card, "Unreadable", `This is no picture that can be read: ${entry.note}.`);
  if (entry.verdict === "unscorable") return refuse(card, "Unscorable", "The model has no finite answer to this picture. Do not trust it.");
  const strange = entry.verdict === "OOD";
  card.classList.add(strange ? "ood" : "id");
  card.querySelector(".class").textContent = entry.class_name ?? "No class: the guard has no head";
  tell(card, strange ? "Out of distribution" : "In distribution");
  card.querySelector(".words").textContent =
    `${strange ? "Do not trust the class. " : ""}${sentence(entry.in_words)} It is flagged at ${percent(rate)} or less.`;
  drawScale(card.querySelector(".scale"), entry.p_value, rate);
  const note = entry.note === null ? "" : ` · ${entry.note}`;
  const score = entry.score === null ? "none" : entry.score.toPrecision(4);
  card.querySelector(".facts").textContent = `p-value ${entry.p_value.toPrecision(3)} · score ${score}${note}`;
  if (entry.triangle !== null) {
    card.classList.remove("plain");
    drawTriangle(card.querySelector(".triangle"), entry);
  }
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

function drawn(parent, kind, attributes, text) {
  const part = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
  if (text !== undefined) part.textContent = text;
  parent.append(part);
  return part;
}

// From the smallest p-value that can be to 1, in equal steps of powers of ten.
function drawScale(svg, p, rate) {
  svg.toggleAttribute("hidden", false);
  svg.replaceChildren();
  svg.setAttribute("aria-label", `p-value ${p.toPrecision(3)} on a scale where up to ${percent(rate)} is flagged`);
  const low = Math.log10(1 / (about.calibration + 1));
  const at = (value) => 8 + 384 * (1 - Math.log10(value) / low);
  const limit = at(rate);
  drawn(svg, "rect", { class: "track", x: 8, y: 8, width: 384, height: 8, rx: 4 });
  drawn(svg, "rect", { class: "flagged", x: 8, y: 8, width: Math.max(0, limit - 8), height: 8, rx: 4 });
  drawn(svg, "line", { class: "limit", x1: limit, x2: limit, y1: 3, y2: 21 });
  drawn(svg, "circle", { class: "here", cx: at(p), cy: 12, r: 7 });
  const end = limit > 340 ? "end" : "middle";
  drawn(svg, "text", { x: 8, y: 36 }, "strange");
  drawn(svg, "text", { x: Math.max(limit, 90), y: 36, "text-anchor": end }, percent(rate));
  if (limit < 330) drawn(svg, "text", { x: 392, y: 36, "text-anchor": "end" }, "ordinary");
}

// The boundary stands upright, the predicted class to its left; μ, z and its projection are to scale.
function drawTriangle(figure, entry) {
  const { angle, distance, centre_distance: away, height, across_name: across } = entry.triangle;
  const points = { centre: [0, 0], feature: [away - distance, height], projection: [away, height] };
  const [width, tall, edge] = [260, 200, 34];
  const xs = Object.values(points).map(([x]) => x);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const scale = Math.min((width - 2 * edge) / Math.max(right - left, 1e-12), (tall - 2 * edge) / Math.max(height, 1e-12));
  const shift = (width - scale * (right - left)) / 2 - scale * left;
  const drop = (tall + scale * height) / 2;
  const place = ([x, y]) => [shift + scale * x, drop - scale * y];
  const [mu, z, foot] = [points.centre, points.feature, points.projection].map(place);
  const degrees = `${((180 / Math.PI) * angle).toFixed(1)}°`;

  const svg = figure.querySelector("svg");
  svg.replaceChildren();
  svg.setAttribute("aria-label", `Triangle with an angle of ${degrees} at the centre`);
  const line = (kind, [x1, y1], [x2, y2]) => drawn(svg, "line", { class: kind, x1, y1, x2, y2 });
  line("boundary", [foot[0], 6], [foot[0], tall - 6]);
  line("side", mu, z);
  line("side", mu, foot);
  line("fall", z, foot);
  drawArc(svg, mu, z, foot, degrees);
  for (const [kind, [cx, cy]] of [["dot", mu], ["dot", foot], ["feature", z]]) {
    drawn(svg, "circle", { class: kind, cx, cy, r: kind === "feature" ? 6 : 4 });
  }
  const side = mu[0] > foot[0] ? 14 : -14;
  drawn(svg, "text", { x: mu[0] + side, y: mu[1] + 16 }, "μ");
  drawn(svg, "text", { x: z[0], y: z[1] - 12 }, "z");
  figure.querySelector("figcaption").textContent =
    `From the centre μ of what is known, the boundary to “${across}” is ${degrees} away from this picture, z.` +
    " A wide angle speaks for the class.";
  figure.hidden = false;
}

function drawArc(svg, centre, from, to, degrees) {
  const reach = (point) => Math.hypot(point[0] - centre[0], point[1] - centre[1]);
  const radius = Math.min(0.4 * Math.min(reach(from), reach(to)), 48);
  if (!(radius > 1)) return;
  const end = (point) => centre.map((part, axis) => (part + (radius * (point[axis] - part)) / reach(point)).toFixed(1));
  const [ax, ay] = end(from);
  const [bx, by] = end(to);
  drawn(svg, "path", { class: "angle", d: `M${ax} ${ay}A${radius} ${radius} 0 0 1 ${bx} ${by}` });
  drawn(svg, "text", { class: "degrees", x: ax - 9, y: Number(ay) + 5 }, degrees);
}

find("file").addEventListener("change", (event) => {
  judge(event.target.files);
  event.target.value = "";
});
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value.trim();
  begin();
});
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
}
for (const kind of ["dragleave", "drop"]) {
  document.addEventListener(kind, () => document.body.classList.remove("dropping"));
}
document.addEventListener("drop", (event) => {
  event.preventDefault();
  judge(event.dataTransfer.files);
});
begin();
