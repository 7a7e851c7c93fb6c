(() => {
  'use strict';
  const $ = (id) => document.getElementById(id);
  const list = $('list');
  if (!list || !$('filter')) return;
  const page = 100;
  const nodes = [...list.children];
  let cases = null, found = nodes, limit = page, lit = [];
  const fields = { c: $('by-cause'), g: $('by-stage'), a: $('by-answer') };
  const query = $('q'), tag = $('by-tag'), sort = $('sort');

  // What is searched is read from the page once, when the browser has nothing else to do.
  const index = () => {
    if (cases) return cases;
    cases = nodes.map((node, at) => ({
      node, at, c: node.dataset.c || '', g: node.dataset.g || '', a: node.dataset.a || '',
      tags: [...node.getElementsByClassName('t')].map((t) => t.textContent),
      text: (node.firstElementChild.textContent + ' ' +
        [...node.getElementsByClassName('qa')].map((q) => q.textContent).join(' ')).toLowerCase(),
    }));
    const options = (select, values) => {
      for (const value of [...new Set(values)].filter(Boolean).sort()) {
        if ([...select.options].some((o) => o.value === value)) continue;
        const option = document.createElement('option');
        option.value = option.textContent = value;
        select.append(option);
      }
    };
    options(fields.g, cases.map((c) => c.g));
    options(fields.a, cases.map((c) => c.a));
    options(tag, cases.flatMap((c) => c.tags));
    return cases;
  };
  const score = (node, at) => {
    const cell = node.getElementsByClassName('s')[0].getElementsByTagName('b')[at];
    const value = cell ? parseFloat(cell.textContent) : NaN;
    return Number.isNaN(value) ? Infinity : value;
  };
  const show = () => {
    const wanted = found.slice(0, limit);
    for (const node of lit) node.classList.remove('on');
    for (const node of wanted) node.classList.add('on');
    lit = wanted;
    $('more').hidden = found.length <= limit;
  };
  const filter = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    let hits = index().filter((c) =>
      Object.entries(fields).every(([key, select]) => !select.value || c[key] === select.value) &&
      (!tag.value || c.tags.includes(tag.value)) && words.every((w) => c.text.includes(w)));
    if (sort.value) {
      const sign = sort.selectedOptions[0].dataset.sign === '-' ? -1 : 1;
      const keyed = hits.map((c) => [score(c.node, +sort.value), c]);
      keyed.sort((x, y) => (x[0] === y[0] ? x[1].at - y[1].at
        : x[0] === Infinity ? 1 : y[0] === Infinity ? -1 : sign * (x[0] - y[0])));
      hits = keyed.map((k) => k[1]);
    }
    found = hits.map((c) => c.node);
    limit = page;
    show();
    if (sort.value) for (const node of lit) list.append(node);
    else if (list.dataset.sorted) list.append(...nodes);
    list.dataset.sorted = sort.value;
    $('found').textContent = hits.length === nodes.length ? String(nodes.length)
      : hits.length + ' of ' + nodes.length;
    for (const link of document.querySelectorAll('a[data-cause]')) {
      if (link.dataset.cause === fields.c.value) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  };
  // A chunk's text stands in the page once; an opened case shows it where it belongs.
  const marked = (text, marks) => {
    const spans = marks.split(';').filter(Boolean).map((m) => m.split(',').map(Number));
    const out = document.createDocumentFragment();
    let at = 0;
    for (const [start, end] of spans) {
      if (start < at) continue;
      const mark = document.createElement('mark');
      mark.textContent = text.slice(start, end);
      out.append(text.slice(at, start), mark);
      at = end;
    }
    out.append(text.slice(at));
    return out;
  };
  const unfold = (node) => {
    if (node.dataset.full) return;
    node.dataset.full = '1';
    for (const row of node.querySelectorAll('.chunks tr')) {
      const link = row.querySelector('a');
      const source = link && $(link.hash.slice(1));
      if (!source) continue;
      const full = document.createElement('details');
      const head = document.createElement('summary');
      const body = document.createElement('pre');
      head.textContent = 'text';
      body.dir = 'auto';
      body.append(marked(source.textContent, row.dataset.m || ''));
      full.append(head, body);
      row.lastElementChild.append(full);
    }
  };
  const go = () => {
    if (!location.hash.startsWith('#case=')) return;
    const raw = location.hash.slice(1);
    let inner = $(raw);
    try { inner = inner || $(decodeURIComponent(raw)); } catch { /* not an escape */ }
    const node = inner && inner.closest('.case');
    if (!node) return;
    if (!node.classList.contains('on')) { node.classList.add('on'); lit.push(node); }
    node.open = true;
    node.scrollIntoView({ block: 'start' });
  };
  list.addEventListener('toggle', (event) => {
    if (event.target.open && event.target.classList.contains('case')) unfold(event.target);
  }, true);
  list.addEventListener('keydown', (event) => {
    const here = event.target.closest && event.target.closest('.case > summary');
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!here || !step) return;
    const shown = [...list.querySelectorAll('.case.on')];
    const next = shown[shown.indexOf(here.parentElement) + step];
    if (next) { event.preventDefault(); next.firstElementChild.focus(); }
  });
  let waiting = 0;
  query.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); });
  $('filter').addEventListener('change', (event) => { if (event.target !== query) filter(); });
  $('filter').addEventListener('submit', (event) => event.preventDefault());
  $('filter').addEventListener('reset', () => setTimeout(filter));
  $('more').addEventListener('click', () => {
    limit += page;
    show();
    if (sort.value) for (const node of lit) list.append(node);
  });
  for (const link of document.querySelectorAll('a[data-cause]')) {
    link.addEventListener('click', () => {
      fields.c.value = fields.c.value === link.dataset.cause ? '' : link.dataset.cause;
      filter();
    });
  }
  addEventListener('beforeprint', () => { for (const node of lit) node.open = true; });
  addEventListener('hashchange', go);
  document.documentElement.classList.add('js');
  $('filter').hidden = false;
  show();
  (window.requestIdleCallback || setTimeout)(index);
  go();
  window.ragbenchFilter = filter;
})();
