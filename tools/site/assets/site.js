"use strict";
{
  const root = document.body.dataset.root;

  // Blocks of code: a button that copies them. Of a console only the commands are copied.
  for (const pre of document.querySelectorAll(".code pre")) {
    if (pre.scrollWidth > pre.clientWidth) pre.tabIndex = 0;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const commands = [...pre.querySelectorAll(".command")].map((c) => c.textContent);
      try {
        await navigator.clipboard.writeText(commands.length ? commands.join("\n") + "\n" : pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected";
      }
      button.classList.add("done");
      setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 2000);
    });
    pre.parentElement.append(button);
  }

  const pages = document.getElementById("pages");
  const current = pages.querySelector("[aria-current]");
  if (current) pages.scrollTop = current.offsetTop - pages.offsetTop - pages.clientHeight / 2;

  // The search. Its index is loaded when somebody begins to search.
  const query = document.getElementById("query");
  const found = document.getElementById("found");
  const count = document.getElementById("count");
  const most = 20;
  let index = null; // [address, title of the page, heading, text]
  let chosen = -1;

  query.closest("[hidden]").hidden = false;

  window.sluiceIndex = (entries) => {
    index = entries.map((e) => ({ at: e[0], page: e[1], heading: e[2], text: e[3], low: e.join(" ").toLowerCase(), name: (e[1] + " " + e[2]).toLowerCase() }));
    show();
  };

  const load = () => {
    const script = document.createElement("script");
    script.src = root + "search.js";
    document.head.append(script);
  };

  // weight is 0 for a section that lacks one of the words.
  const weight = (e, words) => {
    let sum = 0;
    for (const w of words) {
      if (!e.low.includes(w)) return 0;
      sum += e.heading.toLowerCase() === w || e.page.toLowerCase() === w ? 40 : 0;
      sum += e.heading.toLowerCase().includes(w) ? 10 : 0;
      sum += e.name.includes(w) ? 5 : 0;
      sum += Math.min(e.low.split(w).length - 1, 4);
    }
    return e.low.includes(words.join(" ")) ? sum + 5 : sum;
  };

  const marked = (text, words) => {
    const out = document.createDocumentFragment();
    const low = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      let next = text.length, length = 0;
      for (const w of words) {
        const i = low.indexOf(w, at);
        if (i >= 0 && (i < next || i === next && w.length > length)) { next = i; length = w.length; }
      }
      out.append(text.slice(at, next));
      if (length) {
        const mark = document.createElement("mark");
        mark.textContent = text.slice(next, next + length);
        out.append(mark);
      }
      at = next + length;
    }
    return out;
  };

  const excerpt = (e, words) => {
    const at = Math.max(0, Math.min(...words.map((w) => e.text.toLowerCase().indexOf(w)).map((i) => (i < 0 ? Infinity : i))));
    const from = at === Infinity || at < 50 ? 0 : e.text.indexOf(" ", at - 50) + 1;
    const to = e.text.indexOf(" ", from + 140);
    return (from ? "… " : "") + e.text.slice(from, to < 0 ? undefined : to).trim();
  };

  const close = () => {
    found.hidden = true;
    chosen = -1;
    query.setAttribute("aria-expanded", "false");
    query.removeAttribute("aria-activedescendant");
  };

  const choose = (i) => {
    const all = found.querySelectorAll("[role=option]");
    if (!all.length) return;
    all[chosen]?.setAttribute("aria-selected", "false");
    chosen = (i + all.length) % all.length;
    all[chosen].setAttribute("aria-selected", "true");
    all[chosen].scrollIntoView({ block: "nearest" });
    query.setAttribute("aria-activedescendant", all[chosen].id);
  };

  const show = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!index || !words.length) { close(); count.textContent = ""; return; }
    const hits = index.map((e) => [weight(e, words), e]).filter(([w]) => w).sort((a, b) => b[0] - a[0]);
    found.replaceChildren(...hits.slice(0, most).map(([, e], i) => {
      const item = document.createElement("li");
      const title = document.createElement("b");
      const text = document.createElement("span");
      item.id = "found-" + i;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      title.append(marked(e.heading ? e.page + " › " + e.heading : e.page, words));
      text.append(marked(excerpt(e, words), words));
      item.append(title, text);
      item.addEventListener("mousedown", (event) => event.preventDefault());
      item.addEventListener("click", () => { close(); location.href = root + e.at; });
      return item;
    }));
    if (!hits.length) {
      const item = document.createElement("li");
      item.className = "nothing";
      item.setAttribute("role", "presentation");
      item.textContent = "No section has all of these words.";
      found.append(item);
    }
    count.textContent = hits.length ? hits.length + " sections" : "nothing found";
    found.hidden = false;
    chosen = -1;
    query.setAttribute("aria-expanded", "true");
    if (hits.length) choose(0);
  };

  query.addEventListener("focus", load, { once: true });
  query.addEventListener("input", show);
  query.addEventListener("blur", close);
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter") found.querySelectorAll("[role=option]")[chosen]?.click();
    else if (event.key === "Escape" && !found.hidden) close();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    query.focus();
    query.select();
  });
}
