(() => {
  const part = {headers: {'X-Sluice-Part': '1'}};

  // keyOf names a node among its siblings. A row, an option or a section has its own name, so that it stays the same one wherever it moves.
  const keyOf = (n) => {
    if (n.nodeName === 'LABEL') return 'LABEL' + (n.querySelector('[id]')?.id || '');
    if (!['LI', 'TR', 'OPTION', 'SECTION'].includes(n.nodeName)) return n.nodeName + (n.id || (n.nodeName === 'DETAILS' ? n.classList[0] : ''));
    const head = n.querySelector(':scope > h2, :scope > th, :scope > b, :scope > details > summary > b') || n;
    return n.nodeName + (head.firstChild || head).textContent;
  };

  // morph makes a node like another one and touches only what differs: focus, selection, scrolling, and what is open or typed stay.
  const morph = (old, next) => {
    if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== next.data) old.data = next.data; return; }
    const known = new Map();
    for (const n of old.childNodes) { const key = keyOf(n); if (!known.has(key)) known.set(key, []); known.get(key).push(n); }
    const pairs = [...next.childNodes].map((n) => [known.get(keyOf(n))?.shift(), n]);
    for (const left of known.values()) for (const n of left) n.remove();
    let at = old.firstChild;
    for (const [same, n] of pairs) {
      // Text between elements may move, so that elements need not.
      if (same && same.nodeType === Node.ELEMENT_NODE) while (at && at !== same && at.nodeType === Node.TEXT_NODE) at = at.nextSibling;
      if (same && same === at) at = at.nextSibling; else old.insertBefore(same || n, at);
      if (same) morph(same, n);
    }
    // A field that has changed below is shown, as in a new page.
    if (old.nodeName === 'DETAILS' && next.open && old.parentElement.matches('.same')) old.open = true;
    for (const {name} of [...old.attributes]) if (name !== 'open' && !next.hasAttribute(name)) old.removeAttribute(name);
    for (const {name, value} of next.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  };

  // swap puts the new state of a part in place of the old one.
  const swap = (box, next) => {
    for (const {name, value} of box.attributes) next.setAttribute(name, value);
    const focused = document.activeElement;
    morph(box, next);
    if (focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true});
    for (const s of box.querySelectorAll('.search')) if (s.value) s.dispatchEvent(new Event('input', {bubbles: true}));
  };
  const parse = (text) => new DOMParser().parseFromString(text, 'text/html').body;

  // Pages about a cluster follow its changes while they are seen, and filter as one types.
  const main = document.getElementById('middle');
  const textOf = async (address, options) => {
    const r = await fetch(address, options);
    if (!r.ok) throw new Error(r.statusText);
    return r.text();
  };
  const told = (e) => { if (!e || e.name !== 'AbortError') document.body.classList.toggle('lost', !!e); };
  let asked = null;
  const refresh = async () => {
    if (asked) asked.abort();
    const mine = asked = new AbortController();
    const text = await textOf(location.href, {...part, signal: mine.signal});
    if (mine === asked) swap(main, parse(text));
  };
  if (main.dataset.live) {
    // A browser has six connections to a host, so none is kept: the page asks each second whether something has changed.
    let seen, timer;
    const follow = async () => {
      if (!document.hidden) {
        try {
          const now = await textOf('/live/' + main.dataset.live);
          if (now !== seen) await refresh();
          seen = now;
          told();
        } catch (e) { told(e); }
      }
      clearTimeout(timer);
      timer = setTimeout(follow, 1000);
    };
    document.addEventListener('visibilitychange', follow);
    follow();
  }
  let typing;
  const filter = () => {
    const q = new URLSearchParams([...new FormData(main.querySelector('form.filters'))].filter(([, v]) => v !== ''));
    history.replaceState(null, '', location.pathname + (q.size ? '?' + q : ''));
    refresh().then(told, told);
  };
  for (const kind of ['input', 'submit']) {
    main.addEventListener(kind, (e) => {
      if (!e.target.closest('form.filters')) return;
      clearTimeout(typing);
      if (kind === 'input') { typing = setTimeout(filter, 200); return; }
      e.preventDefault();
      filter();
    });
  }

  // The page about a comparison follows what one types.
  const form = document.getElementById('compare');
  if (!form) return;
  const verdict = document.getElementById('verdict');
  let timer, comparing;
  const wrong = document.getElementById('wrong'), result = document.getElementById('told');
  // tell says why there is no verdict. The last one is kept, with what is open in it.
  const tell = (text) => {
    const box = document.createElement('section');
    box.className = 'result fail';
    const head = document.createElement('h2'), p = document.createElement('p');
    head.textContent = 'Not compared';
    p.textContent = text;
    box.append(head, p);
    wrong.replaceChildren(box);
    result.hidden = true;
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
    clearTimeout(timer);
    if (comparing) comparing.abort();
    for (const name of ['old', 'new']) {
      const bytes = new Blob([form.elements[name].value]).size;
      if (bytes > most) { tell('the ' + name + ' CRD has ' + bytes + ' bytes, and the limit is ' + most); return; }
    }
    const mine = comparing = new AbortController();
    verdict.setAttribute('aria-busy', 'true');
    try {
      const next = parse(await textOf('/check', {method: 'POST', body: new FormData(form), ...part, signal: mine.signal}));
      if (mine !== comparing) return;
      if (next.querySelector('#told').hidden) tell(next.querySelector('.text').textContent);
      else swap(verdict, next);
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
  }
  // Two files are the old and the new CRD, one is for the editor that it is dropped on.
  const hasFiles = (e) => e.dataTransfer.types.includes('Files');
  addEventListener('dragover', (e) => { if (hasFiles(e)) e.preventDefault(); });
  addEventListener('drop', async (e) => {
    if (!hasFiles(e)) return;
    e.preventDefault();
    const files = [...e.dataTransfer.files], at = e.target.closest('textarea');
    const sides = files.length === 2 ? [form.elements.old, form.elements.new] : [at];
    const large = files.find((f) => f.size > most);
    if (large) { tell(large.name + ' has ' + large.size + ' bytes, and the limit is ' + most); return; }
    if (files.length !== sides.length || !sides[0]) { tell('Drop one file on an editor, or two files: the old and the new CRD'); return; }
    try {
      const texts = await Promise.all(files.map((f) => f.text()));
      for (const [i, t] of sides.entries()) {
        t.value = texts[i];
        t.closest('fieldset').querySelector('input').value = '';
      }
      compare();
    } catch (e) { tell('The file cannot be read: ' + e.message); }
  });
  for (const b of form.querySelectorAll('.load')) {
    b.hidden = false;
    const side = b.closest('fieldset'), input = side.querySelector('input');
    const load = async () => {
      let text;
      try {
        const r = await fetch('/source?of=' + encodeURIComponent(input.value));
        text = await r.text();
        if (!r.ok || r.headers.has('X-Sluice-Wrong')) { tell(text); return; }
      } catch (e) { tell('sluice ui does not answer: ' + e.message); return; }
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
