'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const tasks = [...document.querySelectorAll('.task')];
  const answers = [...document.querySelectorAll('.answer')];
  const lines = answers.map((node) => JSON.parse(node.dataset.line));
  const buttons = [...document.querySelectorAll('button[data-key]')];
  let said = [];  // [place, value], in the order in which they were given
  let isSaved = true;
  let hash = 5381;
  for (const node of answers) for (const letter of node.dataset.line) hash = (hash * 33 + letter.codePointAt(0)) | 0;
  const name = () => `ragbench-label ${hash} ${$('by').value}`;
  const keep = () => { try { localStorage.setItem(name(), JSON.stringify(said)); } catch { /* private mode */ } };
  const restore = () => {
    said = [];
    try { said = JSON.parse(localStorage.getItem(name()) || '[]'); } catch { /* private mode */ }
    show();
  };
  const values = () => new Map(said);
  const next = () => { const known = values(); return answers.findIndex((_, at) => !known.has(at)); };
  const word = (value) => value === null ? 'skipped' : (buttons.find((one) => one.dataset.value === String(value)) || { textContent: value }).textContent.slice(1);
  function show() {
    const at = next(), known = values();
    const open = at < 0 ? null : answers[at].closest('.task');
    for (const task of tasks) task.hidden = task !== open;
    answers.forEach((node, place) => {
      node.querySelector('.said').textContent = known.has(place) ? word(known.get(place)) : place === at ? '?' : '';
      node.setAttribute('aria-current', place === at);
    });
    for (const one of buttons) one.disabled = at < 0;
    const done = `${known.size} of ${answers.length} labelled`;
    $('state').textContent = at < 0 ? `${done}. Save them (d), then name the file with --labels.` : done;
  }
  function say(value) {
    const at = next();
    if (at < 0) return;
    said.push([at, value]);
    isSaved = false;
    keep();
    show();
    scrollTo(0, 0);
  }
  const undo = () => { said.pop(); isSaved = false; keep(); show(); };
  function save() {
    const by = $('by').value.trim() || 'somebody';
    const rows = [...values()].sort((a, b) => a[0] - b[0]).map(([at, value]) => JSON.stringify({ ...lines[at], value, by }));
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(rows.map((row) => `${row}\n`), { type: 'application/x-ndjson' }));
    link.download = 'labels.jsonl';
    link.click();
    isSaved = true;
  }
  for (const one of buttons) one.addEventListener('click', () => say(one.dataset.value === '' ? null : Number(one.dataset.value)));
  $('undo').addEventListener('click', undo);
  $('save').addEventListener('click', save);
  $('by').addEventListener('change', restore);
  $('bar').addEventListener('submit', (event) => event.preventDefault());
  addEventListener('keydown', (event) => {
    if (event.target === $('by') || event.ctrlKey || event.metaKey || event.altKey) return;
    const one = buttons.find((each) => each.dataset.key === event.key);
    if (one) one.click(); else if (event.key === 'u') undo(); else if (event.key === 'd') save(); else return;
    event.preventDefault();
  });
  addEventListener('beforeunload', (event) => { if (!isSaved) event.preventDefault(); });
  restore();
})();
