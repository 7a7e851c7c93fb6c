(() => {
  'use strict';
  const $ = (id) => document.getElementById(id);
  const list = $('list');
  if (!list || !$('filter')) return;
  const page = 100;
  const nodes = [...list.children];
  const values = new Map(), hits = new Map();
  let cases = null, found = nodes, limit = page, tags = [], shelf = null;
  const fields = { cause: $('by-cause'), stage: $('by-stage'), answer: $('by-answer'), change: $('by-change') };
  const letters = { cause: 'c', stage: 'g', answer: 'a', change: 'k' };
  const query = $('q'), tag = $('by-tag'), sort = $('sort');

  // What is searched is read from the page once, when the browser has nothing else to do.
  const index = () => {
    if (cases) return cases;
    cases = nodes.map((node, at) => ({
      node, at, c: node.dataset.c || '', g: node.dataset.g || '', a: node.dataset.a || '', k: node.dataset.k || '',
      isLost: 'l' in node.dataset,
      tags: [...node.querySelectorAll('.why i')].map((t) => t.textContent),
      chunks: [...node.querySelectorAll('.in > table a[href^="#k"]')].map((a) => a.hash.slice(1)),
      text: (node.firstElementChild.textContent + ' ' +
        [...node.querySelectorAll('.qa, .why, .in > .dim, .in > blockquote')].map((q) => q.textContent).join(' ')).toLowerCase(),
    }));
    shelf = [...document.querySelectorAll('.texts pre')].map((pre) =>
      [pre.id, (pre.previousElementSibling.textContent + ' ' + pre.textContent).toLowerCase()]);
    const options = (select, values) => {
      for (const value of [...new Set(values)].filter(Boolean).sort()) {
        if ([...select.options].some((o) => o.value === value)) continue;
        const option = document.createElement('option');
        option.value = option.textContent = value;
        select.append(option);
      }
    };
    options(fields.stage, cases.map((c) => c.g));
    options(fields.answer, cases.map((c) => c.a));
    options(tag, cases.flatMap((c) => c.tags));
    return cases;
  };
  // The chunks that hold a word in their id or text.
  const holding = (word) => {
    if (!hits.has(word)) hits.set(word, new Set(shelf.filter(([, text]) => text.includes(word)).map(([id]) => id)));
    return hits.get(word);
  };
  // Values of a metric by case, read once: "name value" in the line of scores.
  const scores = (name) => {
    if (!values.has(name)) {
      values.set(name, nodes.map((node) => {
        const line = node.getElementsByClassName('s')[0].textContent.split(' · ');
        const start = name.toLowerCase() + ' ';
        const told = line.find((part) => part.trim().toLowerCase().startsWith(start));
        const value = told ? parseFloat(told.trim().slice(start.length)) : NaN;
        return Number.isNaN(value) ? null : value;
      }));
    }
    return values.get(name);
  };
  const names = new Set([...sort.options].map((o) => o.value.toLowerCase()));
  const compare = { '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b, '=': (a, b) => a === b };
  // A word of the search: a range of a metric, or what has to stand somewhere.
  const test = (word) => {
    const [, name, sign, number] = /^(.+?)(<=|>=|<|>|=)(-?[\d.]+)$/.exec(word) || [];
    if (!names.has(name)) return (c) => c.text.includes(word) || c.chunks.some((id) => holding(word).has(id));
    const of = scores(name), limit = parseFloat(number);
    return (c) => of[c.at] !== null && compare[sign](of[c.at], limit);
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
  const chips = () => $('tags').replaceChildren(...tags.map((name) => {
    const chip = document.createElement('button');
    chip.type = 'button';
    chip.textContent = name + ' ×';
    chip.setAttribute('aria-label', 'Without the tag ' + name);
    chip.addEventListener('click', () => { tags = tags.filter((each) => each !== name); filter(); });
    return chip;
  }));
  const state = () => {
    const params = new URLSearchParams();
    for (const [name, select] of Object.entries(fields)) if (select && select.value) params.set(name, select.value);
    for (const name of tags) params.append('tag', name);
    if (query.value) params.set('q', query.value);
    if (sort.value) params.set('sort', sort.value);
    return params.toString();
  };
  const apply = (text) => {
    index();
    const params = new URLSearchParams(text);
    for (const [name, select] of Object.entries(fields)) if (select) select.value = params.get(name) || '';
    tags = params.getAll('tag');
    query.value = params.get('q') || '';
    sort.value = params.get('sort') || '';
    filter();
  };
  const filter = () => {
    if (tag.value && !tags.includes(tag.value)) tags.push(tag.value);
    tag.value = '';
    index();
    const tests = query.value.toLowerCase().split(/\s+/).filter(Boolean).map(test);
    const wanted = Object.entries(fields).filter(([, select]) => select && select.value);
    let hits = cases.filter((c) => wanted.every(([key, select]) =>
      select.value === 'lost' && key === 'cause' ? c.isLost : c[letters[key]] === select.value) &&
      tags.every((name) => c.tags.includes(name)) && tests.every((holds) => holds(c)));
    if (sort.value) hits = sorted(hits);
    found = hits.map((c) => c.node);
    limit = page;
    show();
    chips();
    $('found').textContent = hits.length === nodes.length ? String(nodes.length)
      : hits.length + ' of ' + nodes.length;
    const now = state();
    for (const link of document.querySelectorAll('a[data-f]')) {
      if (link.dataset.f === now) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
    if (now || location.hash.includes('=')) history.replaceState(null, '', now ? '#' + now : location.pathname + location.search);
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
  const copy = (text) => {
    const kept = document.createElement('textarea');
    kept.value = text;
    document.body.append(kept);
    kept.select();
    document.execCommand('copy');
    kept.remove();
  };
  // Opens the next case of those that were found, or the one before.
  const step = (by) => {
    const open = found.filter((node) => node.open);
    const here = open.length ? found.indexOf(open[open.length - 1]) : by > 0 ? -1 : found.length;
    const next = found[here + by];
    if (!next) return;
    for (const node of open) node.open = false;
    while (found.indexOf(next) >= limit) limit += page;
    if (!next.isConnected) show();
    next.open = true;
    next.firstElementChild.focus({ preventScroll: true });
    next.scrollIntoView({ block: 'start' });
  };
  const unfold = (node) => {
    if (node.dataset.full) return;
    node.dataset.full = '1';
    const id = node.querySelector('.id').textContent;
    const acts = [['copy id', () => copy(id)], ['previous', () => step(-1)], ['next', () => step(1)]];
    for (const [name, act] of acts) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = name;
      button.addEventListener('click', act);
      node.querySelector('.why').append(' ', button);
    }
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
    if (!location.hash.startsWith('#case=')) {
      if (!location.hash.includes('=')) return;
      apply(location.hash.slice(1));
      $('cases').scrollIntoView({ block: 'start' });
      return;
    }
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
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea')) return;
    const here = event.target.closest('.case > summary');
    const arrow = here && { ArrowDown: 'next', ArrowUp: 'previous' }[event.key];
    const next = arrow && here.parentElement[arrow + 'ElementSibling'];
    if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
    else if (event.key === '/') query.focus();
    else if (next) next.firstElementChild.focus();
    else return;
    event.preventDefault();
  });
  let waiting = 0;
  query.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(filter, 60); });
  $('filter').addEventListener('change', (event) => { if (event.target !== query) filter(); });
  $('filter').addEventListener('submit', (event) => event.preventDefault());
  $('filter').addEventListener('reset', () => { tags = []; setTimeout(filter); });
  $('more').addEventListener('click', () => {
    limit += page;
    show();
  });
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-f]');
    if (!link) return;
    event.preventDefault();
    apply(link.getAttribute('aria-current') ? '' : link.dataset.f);
    $('cases').scrollIntoView({ block: 'start' });
  });
  // Paper holds every case that was found, and its heading counts those.
  addEventListener('beforeprint', () => {
    list.replaceChildren(...found);
    for (const node of found) node.open = true;
  });
  addEventListener('hashchange', go);
  document.documentElement.classList.add('js');
  $('filter').hidden = false;
  show();
  (window.requestIdleCallback || setTimeout)(index);
  go();
  window.ragbenchFilter = filter;
})();
