(() => {
  'use strict';
  const $ = (id) => document.getElementById(id);
  const list = $('list');
  if (!list || !$('filter')) return;
  const page = 100;
  const nodes = [...list.children];
  const values = new Map();
  let cases = null, found = nodes, limit = page;
  const fields = { c: $('by-cause'), g: $('by-stage'), a: $('by-answer'), k: $('by-change') };
  const query = $('q'), tag = $('by-tag'), sort = $('sort');

  // What is searched is read from the page once, when the browser has nothing else to do.
  const index = () => {
    if (cases) return cases;
    cases = nodes.map((node, at) => ({
      node, at, c: node.dataset.c || '', g: node.dataset.g || '', a: node.dataset.a || '', k: node.dataset.k || '',
      tags: [...node.querySelectorAll('.why i')].map((t) => t.textContent),
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
  // Values of a metric by case, read once: "name value" in the line of scores.
  const scores = (name) => {
    if (!values.has(name)) {
      values.set(name, nodes.map((node) => {
        const line = node.getElementsByClassName('s')[0].textContent.split(' · ');
        const told = line.find((part) => part.startsWith(name + ' '));
        const value = told ? parseFloat(told.slice(name.length + 1)) : NaN;
        return Number.isNaN(value) ? null : value;
      }));
    }
    return values.get(name);
  };
  const sorted = (hits) => {
    const of = scores(sort.value);
    const sign = sort.selectedOptions[0].dataset.sign === '-' ? -1 : 1;
    const [measured, rest] = [hits.filter((c) => of[c.at] !== null),
      hits.filter((c) => of[c.at] === null)];
    return [...measured.sort((x, y) => sign * (of[x.at] - of[y.at]) || x.at - y.at), ...rest];
  };
  // Only the cases that are shown stand in the document: the browser lays out no others.
  const show = () => {
    list.replaceChildren(...found.slice(0, limit));
    $('more').hidden = found.length <= limit;
  };
  const filter = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.entries(fields).filter(([, select]) => select && select.value);
    let hits = index().filter((c) => wanted.every(([key, select]) => c[key] === select.value) &&
      (!tag.value || c.tags.includes(tag.value)) && words.every((w) => c.text.includes(w)));
    if (sort.value) hits = sorted(hits);
    found = hits.map((c) => c.node);
    limit = page;
    show();
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
    for (const row of node.querySelectorAll('.in > table tr')) {
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
      (row.cells[3] || row.insertCell()).append(full);
    }
  };
  const go = () => {
    if (!location.hash.startsWith('#case=')) return;
    const ids = [location.hash.slice(1)];
    try { ids.push(decodeURIComponent(ids[0])); } catch { /* not an escape */ }
    const node = nodes.find((each) => ids.includes(each.lastElementChild.id));
    if (!node) return;
    if (!node.isConnected) list.append(node);
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
    const next = step > 0 ? here.parentElement.nextElementSibling
      : here.parentElement.previousElementSibling;
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
  });
  for (const link of document.querySelectorAll('a[data-cause]')) {
    link.addEventListener('click', () => {
      fields.c.value = fields.c.value === link.dataset.cause ? '' : link.dataset.cause;
      filter();
    });
  }
  addEventListener('beforeprint', () => { for (const node of list.children) node.open = true; });
  addEventListener('hashchange', go);
  document.documentElement.classList.add('js');
  $('filter').hidden = false;
  show();
  (window.requestIdleCallback || setTimeout)(index);
  go();
  window.ragbenchFilter = filter;
})();
