(() => {
  const part = {headers: {'X-Sluice-Part': '1'}};

  // swap puts the new state of a part in place of the old one. What is open stays open, and the focus stays.
  const swap = (box, text) => {
    const next = new DOMParser().parseFromString(text, 'text/html');
    const fresh = next.getElementById('live') || next.body;
    const open = new Map([...box.querySelectorAll('details[id]')].map((d) => [d.id, d.open]));
    const focused = box.contains(document.activeElement) && document.activeElement;
    const href = focused && focused.getAttribute('href');
    const scrolled = [...box.querySelectorAll('.scroll')].map((s) => s.scrollLeft);
    box.replaceChildren(...fresh.childNodes);
    for (const d of box.querySelectorAll('details[id]')) if (open.has(d.id)) d.open = open.get(d.id);
    box.querySelectorAll('.scroll').forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
    if (href) { const again = box.querySelector(`a[href="${CSS.escape(href)}"]`) || [...box.querySelectorAll('a')].find((a) => a.getAttribute('href') === href); if (again) again.focus({preventScroll: true}); }
  };

  // Pages about a cluster follow its changes while they are seen, and filter as one types.
  const main = document.querySelector('main[data-live]');
  let asked = null;
  const refresh = async () => {
    const box = document.getElementById('live');
    if (!box) return;
    if (asked) asked.abort();
    const mine = asked = new AbortController();
    try {
      const r = await fetch(location.href, {...part, signal: mine.signal});
      if (r.ok) swap(box, await r.text());
    } catch (e) {
      if (e.name !== 'AbortError') document.body.classList.add('lost');
    }
  };
  if (main) {
    let source = null;
    const follow = () => {
      if (document.hidden) {
        if (source) source.close();
        source = null;
      } else if (!source) {
        source = new EventSource('/live/' + main.dataset.live);
        source.onmessage = refresh;
        // What changed since the page was written, or since the connection was lost, is not told.
        source.onopen = () => { document.body.classList.remove('lost'); refresh(); };
        source.onerror = () => document.body.classList.add('lost');
      }
    };
    document.addEventListener('visibilitychange', () => { follow(); if (!document.hidden) refresh(); });
    addEventListener('pagehide', () => { if (source) source.close(); });
    follow();
  }
  const filters = document.querySelector('form.filters');
  if (filters) {
    let timer;
    const apply = () => {
      const q = new URLSearchParams([...new FormData(filters)].filter(([, v]) => v !== ''));
      history.replaceState(null, '', location.pathname + (q.size ? '?' + q : ''));
      refresh();
    };
    filters.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(apply, 200); });
    filters.addEventListener('submit', (e) => { e.preventDefault(); clearTimeout(timer); apply(); });
  }

  // The page about a comparison follows what one types.
  const form = document.getElementById('compare');
  if (!form) return;
  const verdict = document.getElementById('verdict');
  let timer, comparing;
  const tell = (text) => {
    const box = document.createElement('section');
    box.className = 'result fail';
    const head = document.createElement('h2'), p = document.createElement('p');
    head.textContent = 'Not compared';
    p.textContent = text;
    box.append(head, p);
    verdict.replaceChildren(box);
  };
  const lineLinks = () => {
    for (const at of verdict.querySelectorAll('.at')) {
      const m = /^(?:(old|new):|line )(\d+)$/.exec(at.textContent);
      if (!m) continue;
      const b = document.createElement('button');
      b.type = 'button';
      b.className = 'goto';
      b.textContent = at.textContent;
      b.addEventListener('click', () => {
        const t = form.elements[m[1] || 'new'], lines = t.value.split('\n'), n = Math.min(+m[2], lines.length);
        const from = lines.slice(0, n - 1).reduce((sum, l) => sum + l.length + 1, 0);
        t.focus();
        t.setSelectionRange(from, from + lines[n - 1].length);
        t.scrollTop = Math.max(0, (n - 4) * parseFloat(getComputedStyle(t).lineHeight));
      });
      at.replaceChildren(b);
    }
  };
  const most = 8 << 20; // MaxText of the server
  const compare = async () => {
    if (comparing) comparing.abort();
    for (const name of ['old', 'new']) {
      const bytes = new Blob([form.elements[name].value]).size;
      if (bytes > most) { tell('the ' + name + ' CRD has ' + bytes + ' bytes, and the limit is ' + most); return; }
    }
    const mine = comparing = new AbortController();
    verdict.setAttribute('aria-busy', 'true');
    try {
      const r = await fetch('/check', {method: 'POST', body: new FormData(form), ...part, signal: mine.signal});
      const text = await r.text();
      if (mine !== comparing) return;
      swap(verdict, text);
      lineLinks();
    } catch (e) {
      if (e.name !== 'AbortError') tell('sluice ui does not answer: ' + e.message);
    }
    if (mine === comparing) verdict.setAttribute('aria-busy', 'false');
  };
  form.addEventListener('submit', (e) => { e.preventDefault(); compare(); });
  const later = () => { clearTimeout(timer); timer = setTimeout(compare, 400); };
  for (const t of form.querySelectorAll('textarea')) {
    t.addEventListener('input', later);
    t.addEventListener('keydown', (e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); compare(); } });
    t.addEventListener('dragover', (e) => e.preventDefault());
    t.addEventListener('drop', async (e) => {
      const file = e.dataTransfer.files[0];
      if (!file) return;
      e.preventDefault();
      if (file.size > most) { tell(file.name + ' has ' + file.size + ' bytes, and the limit is ' + most); return; }
      t.value = await file.text();
      t.closest('fieldset').querySelector('input').value = '';
      compare();
    });
  }
  for (const b of form.querySelectorAll('.load')) {
    b.hidden = false;
    const side = b.closest('fieldset'), input = side.querySelector('input');
    const load = async () => {
      const r = await fetch('/source?of=' + encodeURIComponent(input.value));
      const text = await r.text();
      if (!r.ok || r.headers.has('X-Sluice-Wrong')) { tell(text); return; }
      side.querySelector('textarea').value = text;
      const q = new URLSearchParams();
      for (const name of ['old', 'new']) if (form.elements[name + '-source'].value) q.set(name, form.elements[name + '-source'].value);
      history.replaceState(null, '', '/check?' + q);
      if (form.elements.new.value) compare();
    };
    b.addEventListener('click', load);
    input.addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); load(); } });
  }
  lineLinks();

  // The first line that differs is in sight.
  const lines = ['old', 'new'].map((name) => form.elements[name].value.split('\n'));
  const first = lines[1].findIndex((line, i) => line !== lines[0][i]);
  if (first > 8 && lines[0].length > 1) {
    for (const name of ['old', 'new']) form.elements[name].scrollTop = (first - 5) * parseFloat(getComputedStyle(form.elements[name]).lineHeight);
  }
})();
