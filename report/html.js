'use strict';
(() => {
  // Whoever follows a link to a finding or a field sees it, whatever is closed around it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let e = target; e; e = e.parentElement) {
      if (e.tagName === 'DETAILS') e.open = true;
      const only = e.classList.contains('schemas') && target.closest('.same') && e.querySelector('.only');
      if (only) only.checked = false;
    }
    target.scrollIntoView();
  };
  addEventListener('hashchange', reveal);
  document.addEventListener('DOMContentLoaded', reveal);
  document.addEventListener('click', (e) => {
    const link = e.target.closest && e.target.closest('a[href^="#"]');
    if (link && link.getAttribute('href') === location.hash) reveal();
  });

  // visit shows the fields whose path has the words, and what is around and below them. It returns how many have.
  const visit = (li, path, words, shown) => {
    const name = li.querySelector(':scope > b, :scope > details > summary > b');
    if (!name) return 0;
    const here = li.parentElement.classList.contains('tree') ? '' : path + (name.textContent.startsWith('[') ? '' : '.') + name.textContent;
    const hit = words !== '' && here.toLowerCase().includes(words) && !path.toLowerCase().includes(words);
    let below = 0;
    const details = li.querySelector(':scope > details');
    for (const child of li.querySelectorAll(':scope > details > ul > li')) below += visit(child, here, words, shown || hit);
    li.hidden = words !== '' && !shown && !hit && below === 0;
    if (details && words !== '') details.open = below > 0;
    return below + (hit ? 1 : 0);
  };
  document.addEventListener('input', (e) => {
    const section = e.target.matches('.search') && e.target.closest('.schemas');
    if (!section) return;
    const words = e.target.value.trim().toLowerCase();
    section.classList.toggle('searching', words !== '');
    let hits = 0;
    for (const li of section.querySelectorAll('.tree > li')) hits += visit(li, '', words, false);
    section.querySelector('output').textContent = words === '' ? '' : hits + (hits === 1 ? ' field' : ' fields');
  });
})();
