"use strict";
// Takes the values that changed and puts them where they stand; draws nothing itself.

const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };
let wanted = "";
let sort = null;
let last = performance.now();
let source = null;

function number(text) {
  const parts = /^(-?[\d.]+)(Ki|Mi|Gi|Ti|Pi)?/.exec(text);
  return parts ? Number(parts[1]) * (UNITS[parts[2]] || 1) : -1;
}

function apply(values) {
  for (const key in values) {
    const at = key.lastIndexOf("@");
    const element = document.getElementById(at < 0 ? key : key.slice(0, at));
    if (!element) continue;
    if (at < 0) element.textContent = values[key];
    else element.setAttribute(key.slice(at + 1), values[key]);
  }
}

function rows() {
  const table = document.getElementById("pods");
  return table ? Array.from(table.tBodies[0].rows) : [];
}

function filter() {
  const all = rows();
  let shown = 0;
  for (const row of all) {
    const text = `${row.cells[0].textContent} ${row.cells[1].textContent} ${row.cells[2].textContent}`;
    row.hidden = !text.toLowerCase().includes(wanted);
    shown += row.hidden ? 0 : 1;
  }
  const said = document.getElementById("shown");
  const text = wanted ? `${shown} of ${all.length} pods` : "";
  if (said && said.textContent !== text) said.textContent = text;
}

function arrange() {
  if (!sort) return;
  const table = document.getElementById("pods");
  if (!table) return;
  const { column, ascending } = sort;
  const head = table.tHead.rows[0].cells[column];
  const numeric = head.classList.contains("n");
  const key = (row) => (numeric ? number(row.cells[column].textContent) : row.cells[column].textContent);
  const keyed = rows().map((row) => [key(row), row]);
  const order = numeric ? (a, b) => a - b : (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const before = keyed.map(([, row]) => row);
  keyed.sort(([a], [b]) => (ascending ? order(a, b) : order(b, a)));
  if (keyed.some(([, row], at) => row !== before[at])) table.tBodies[0].append(...keyed.map(([, row]) => row));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
}

function prepare() {
  const box = document.getElementById("filter");
  if (!box) return;
  box.addEventListener("input", () => { wanted = box.value.trim().toLowerCase(); filter(); });
  box.form.addEventListener("submit", (event) => event.preventDefault());
  const table = document.getElementById("pods");
  table.tHead.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    const column = link.closest("th").cellIndex;
    const again = sort && sort.column === column;
    sort = { column, ascending: again ? !sort.ascending : column === 0 };
    arrange();
  });
  for (const picture of document.querySelectorAll("svg.tree")) {
    picture.addEventListener("click", (event) => {
      const pod = event.target.closest("[data-pod]");
      const row = pod && table.querySelector(`tr[data-pod="${pod.dataset.pod}"] a`);
      if (row) row.click();
    });
  }
  filter();
}

async function swap() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const text = await answer.text();
  const made = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement;
  const again = focused && (focused.id || (focused.tagName === "A" && focused.getAttribute("href")));
  const typed = document.getElementById("filter") && document.getElementById("filter").value;
  const open = new Set(Array.from(document.querySelectorAll("details[open]"), (one) => one.id));
  const closed = new Set(Array.from(document.querySelectorAll("details:not([open])"), (one) => one.id));
  document.querySelector("main").replaceWith(made.querySelector("main"));
  for (const one of document.querySelectorAll("details")) {
    if (open.has(one.id)) one.open = true;
    if (closed.has(one.id)) one.open = false;
  }
  if (typed) document.getElementById("filter").value = typed;
  prepare();
  arrange();
  if (again) {
    const found = document.getElementById(again)
      || Array.from(document.links).find((link) => link.getAttribute("href") === again);
    if (found) found.focus();
  }
}

function tell() {
  const state = document.getElementById("state");
  const interval = Number(state.dataset.interval);
  if (!interval) return;
  const age = (performance.now() - last) / 1000;
  const stale = age > 3 * interval + 2;
  const text = stale ? `no news for ${Math.round(age)} s` : "live";
  if (state.textContent !== text && (!stale || !state.classList.contains("stale") || Math.round(age) % 10 === 0)) state.textContent = text;
  state.classList.toggle("stale", stale);
}

function follow() {
  const place = encodeURIComponent(location.pathname + location.search);
  const look = document.getElementById("state").dataset.look;
  source = new EventSource(`/events?page=${place}&look=${look}`);
  source.addEventListener("values", (event) => {
    const begun = performance.now();
    last = begun;
    apply(JSON.parse(event.data));
    if (wanted) filter();
    arrange();
    performance.measure("update", { start: begun, end: performance.now() });
  });
  source.addEventListener("frame", () => { last = performance.now(); swap(); });
  source.addEventListener("look", () => { last = performance.now(); });
}

document.documentElement.classList.add("live");
prepare();
if (Number(document.getElementById("state").dataset.interval)) {
  follow();
  tell();
  setInterval(tell, 1000);
  window.addEventListener("pagehide", () => source && source.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
}
