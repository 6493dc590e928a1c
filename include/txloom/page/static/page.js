// Follows Airflow's theme, opens Airflow's own pages outside of the frame, names cells for narrow windows, and lets ages grow. The page works without it.
"use strict";
(() => {
  const own = document.documentElement;
  const framed = window.parent !== window;

  // Airflow's own document, where the page lies in its frame and in its origin.
  const airflow = () => {
    try {
      return framed ? window.parent.document : null;
    } catch {
      return null;
    }
  };

  const theme = () => {
    const classes = airflow()?.documentElement.classList;
    if (classes?.contains("dark")) return "dark";
    if (classes?.contains("light")) return "light";
    try {
      const kept = window.localStorage.getItem("theme");
      return kept === "dark" || kept === "light" ? kept : null;
    } catch {
      return null;
    }
  };
  const follow = () => {
    const found = theme();
    if (found) own.dataset.theme = found;
    else delete own.dataset.theme;
  };
  follow();
  const outer = airflow();
  if (outer) new MutationObserver(follow).observe(outer.documentElement, { attributes: true, attributeFilter: ["class"] });
  window.addEventListener("storage", follow);

  // The frame may not navigate Airflow's window, but Airflow's document may: it gets the link to click.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-airflow]");
    const outside = airflow();
    if (!link || !outside || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    const there = outside.createElement("a");
    there.href = link.href;
    outside.body.append(there);
    there.click();
    there.remove();
  });

  // In a narrow window each row of a table is a card: its cells carry the names of their columns.
  const cards = () => {
    for (const table of document.querySelectorAll(".scroll > table:not(.diff)")) {
      if (table.closest(".charts")) continue;
      const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
      for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => (cell.dataset.label = names[at]));
      table.classList.add("cards");
    }
  };

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const span = (seconds) => {
    let left = Math.max(0, Math.floor(seconds));
    if (left >= 600) left -= left % 60;
    const found = [];
    for (const [size, unit] of units) {
      if (left >= size && found.length < 2) {
        found.push(`${Math.floor(left / size)} ${unit}`);
        left %= size;
      } else if (found.length) break;
    }
    return found.join(" ") || "0 s";
  };
  // Ages count by the server's clock: the browser's own may be wrong.
  const begun = performance.now();
  document.addEventListener("DOMContentLoaded", () => {
    cards();
    const led = window.location.hash && document.getElementById(window.location.hash.slice(1));
    if (led instanceof HTMLDetailsElement) led.open = true;
    const times = [...document.querySelectorAll("time.ago")];
    const server = Date.parse(document.querySelector(".loaded time.ago")?.dateTime ?? "");
    if (Number.isNaN(server)) return;
    window.setInterval(() => {
      const now = server + (performance.now() - begun);
      for (const each of times) each.textContent = `${span((now - Date.parse(each.dateTime)) / 1000)} ago`;
    }, 5000);
  });
})();
