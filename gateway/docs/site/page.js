// What a page does beyond HTML: search, theme, copy buttons, the current heading. Each page can be read without it.
import MiniSearch from 'minisearch';

const root = new URL('./', document.currentScript.src);
const find = (selector) => document.querySelector(selector);

function create(tag, text, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  element.textContent = text;
  return element;
}

function addCopyButtons() {
  for (const block of document.querySelectorAll('pre')) {
    const button = create('button', 'Copy', { type: 'button', className: 'copy' });
    button.addEventListener('click', async () => {
      const done = await navigator.clipboard.writeText(block.textContent).then(
        () => 'Copied',
        () => 'Press Ctrl+C',
      );
      if (done !== 'Copied') getSelection().selectAllChildren(block);
      button.textContent = done;
      setTimeout(() => (button.textContent = 'Copy'), 2000);
    });
    const frame = create('div', '', { className: 'code' });
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

function addThemeButton() {
  const button = find('button.theme');
  const themes = ['system', 'light', 'dark'];
  const { dataset } = document.documentElement;
  const show = () => {
    const theme = dataset.theme ?? 'system';
    button.textContent = { system: '◐', light: '☀', dark: '☾' }[theme];
    button.ariaLabel = `Theme: ${theme}`;
    button.title = button.ariaLabel;
  };
  button.addEventListener('click', () => {
    const next = themes[(themes.indexOf(dataset.theme ?? 'system') + 1) % themes.length];
    if (next === 'system') delete dataset.theme;
    else dataset.theme = next;
    try {
      localStorage.setItem('guide-theme', next);
    } catch {
      // The theme then lasts for this page.
    }
    show();
  });
  button.hidden = false;
  show();
}

let index;
/** The index, built from the texts on first use. */
async function searchIndex() {
  const rows = await (await fetch(new URL('search.json', root))).json();
  const engine = new MiniSearch({
    fields: ['heading', 'title', 'text'],
    storeFields: ['title', 'heading', 'text'],
    tokenize: (text) => text.split(/[^\p{L}\p{N}_]+/u),
    searchOptions: { boost: { title: 3, heading: 4 }, prefix: true, fuzzy: (term) => (term.length > 4 ? 0.2 : 0), combineWith: 'AND' },
  });
  engine.addAll(rows.map(([id, title, heading, text]) => ({ id, title, heading, text })));
  return engine;
}

/** The words around the first match. */
function excerpt({ text, match }) {
  const places = Object.keys(match).map((word) => text.toLowerCase().indexOf(word));
  const from = Math.max(0, Math.min(...places.filter((place) => place >= 0), text.length) - 40);
  return `${from > 0 ? '…' : ''}${text.slice(from, from + 140)}${text.length > from + 140 ? '…' : ''}`;
}

/** Parts that have all words, or else any of the longer ones: a question has words that no page has. */
function found(engine, words) {
  const all = engine.search(words);
  const processTerm = (term) => (term.length > 3 ? term.toLowerCase() : null);
  return (all.length > 0 ? all : engine.search(words, { combineWith: 'OR', processTerm })).slice(0, 12);
}

function addSearch() {
  const [dialog, button] = [find('dialog'), find('button.search')];
  const [input, status, list] = ['input', 'p', 'ol'].map((selector) => dialog.querySelector(selector));
  let latest = 0;
  const show = async () => {
    const run = ++latest;
    const results = input.value.trim() === '' ? [] : found(await (index ??= searchIndex()), input.value);
    if (run !== latest) return;
    list.replaceChildren(
      ...results.map((result) => {
        const link = create('a', '', { href: new URL(result.id, root).href });
        link.append(
          create('strong', result.heading || result.title),
          create('small', result.heading && result.title),
          create('span', excerpt(result)),
        );
        link.addEventListener('click', () => dialog.close());
        const item = create('li', '');
        item.append(link);
        return item;
      }),
    );
    status.textContent = input.value.trim() === '' ? '' : results.length === 0 ? 'Nothing found' : `${results.length} found`;
  };
  const open = () => {
    dialog.showModal();
    input.select();
    index ??= searchIndex();
  };
  const move = (step) => {
    const links = [...list.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement) + step;
    (at < 0 ? input : links[Math.min(at, links.length - 1)])?.focus();
  };
  input.addEventListener('input', () => void show());
  dialog.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) move(step);
    else if (event.key === 'Enter' && event.target === input) list.querySelector('a')?.click();
    else return;
    event.preventDefault();
  });
  button.addEventListener('click', open);
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.matches('input, textarea, select');
    const isKey = (event.key === '/' && !isTyping) || (event.key === 'k' && (event.ctrlKey || event.metaKey));
    if (!isKey || dialog.open) return;
    event.preventDefault();
    open();
  });
  button.hidden = false;
}

/** Marks the heading that is being read in the list on the side. */
function followHeadings() {
  const links = new Map([...document.querySelectorAll('.headings a')].map((link) => [link.hash.slice(1), link]));
  const headings = [...document.querySelectorAll('article h2')].filter(({ id }) => links.has(id));
  if (headings.length === 0) return;
  const follow = () => {
    const current = headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 3) ?? headings[0];
    for (const [id, link] of links) link.ariaCurrent = id === current.id ? 'true' : null;
  };
  addEventListener('scroll', follow, { passive: true });
  follow();
}

addCopyButtons();
addThemeButton();
addSearch();
followHeadings();
find('.contents [aria-current]')?.scrollIntoView({ block: 'nearest' });
