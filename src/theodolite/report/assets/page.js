"use strict";
// The page around the curves: colours, tabs, tables that sort.
(() => {
  const element = (id) => document.getElementById(id);
  document.documentElement.classList.add("scripted");

  // ---------------------------------------------------------------- theme

  const theme = element("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  function nameTheme() {
    theme.textContent = isDark() ? "light" : "dark";
    theme.setAttribute("aria-label", `Switch to the ${theme.textContent} colours`);
    theme.setAttribute("aria-pressed", String(Boolean(document.documentElement.dataset.theme)));
  }
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  // ---------------------------------------------------------------- tables

  for (const list of document.querySelectorAll("[role=tablist]")) {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const show = (chosen) => {
      for (const tab of tabs) {
        const selected = tab === chosen;
        tab.setAttribute("aria-selected", String(selected));
        tab.tabIndex = selected ? 0 : -1;
        element(tab.getAttribute("aria-controls")).hidden = !selected;
      }
    };
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(place + step + tabs.length) % tabs.length];
        show(next);
        next.focus();
      });
    });
    show(tabs[0]);
  }

  function sort(head) {
    const row = head.parentElement, body = row.closest("table").tBodies[0];
    const column = [...row.children].indexOf(head), was = head.getAttribute("aria-sort");
    const opposite = { ascending: "descending", descending: "ascending" }, order = opposite[was] ?? head.dataset.first;
    for (const other of row.children) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    // What is absent is no number: it stays at the end in either order.
    const compare = (a, b) => {
      if (column === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
      const [first, second] = [a, b].map((row) => Number(row.cells[column].dataset.value));
      return Number.isNaN(first) || Number.isNaN(second)
        ? Number.isNaN(first) - Number.isNaN(second)
        : sign * (first - second);
    };
    body.append(...[...body.rows].sort(compare));
  }
  for (const head of document.querySelectorAll("thead th[data-first]")) {
    head.querySelector("button").addEventListener("click", () => sort(head));
  }

  // ---------------------------------------------------------------- small screens

  // What a small screen has no room for is folded; nothing is folded on paper, nor without scripts.
  const folds = [...document.querySelectorAll("details.fold")];
  if (matchMedia("(max-width: 520px)").matches) for (const fold of folds) fold.open = false;
  for (const button of document.querySelectorAll(".unfold")) {
    button.addEventListener("click", () => {
      const shown = button.parentElement.classList.toggle("unfolded");
      button.setAttribute("aria-expanded", String(shown));
      button.textContent = shown ? "fewer rows" : `all ${button.parentElement.querySelector("tbody").rows.length} rows`;
    });
  }
  addEventListener("beforeprint", () => { for (const fold of folds) fold.open = true; });

  // A shadow at the edge behind which a table goes on.
  for (const scroll of document.querySelectorAll(".scroll")) {
    const edges = () => {
      const left = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
      scroll.classList.toggle("more", left > 2);
    };
    scroll.addEventListener("scroll", edges, { passive: true });
    new ResizeObserver(edges).observe(scroll);
  }
})();
