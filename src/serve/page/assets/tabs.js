// The page's tabs. A tab is a module with
//
//   export function mount(root, api)   // once, when it is first chosen; fills `root`
//
// which may return {show(), hide()}, called whenever the tab comes (the first time too) and goes, or
// the whole page does, so that nothing runs that nobody sees. The address's fragment names the tab.
import {h} from './dom.js';
import * as calculator from './calculator.js';
import * as engine from './engine.js';
import * as model from './model.js';
import * as playground from './playground.js';

const TABS = [
  {id: 'playground', title: 'Playground', module: playground},
  {id: 'engine', title: 'Engine', module: engine},
  {id: 'model', title: 'Model', module: model},
  {id: 'calculator', title: 'Calculator', module: calculator},
];

export function startTabs(api) {
  const list = document.getElementById('tabs');
  const panels = document.getElementById('panels');
  let current = null;

  const entries = TABS.map(({id, title, module}) => {
    const button = h('button', {
      type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': `panel-${id}`, tabIndex: -1,
      onclick: () => { location.hash = id; },
    }, title);
    const panel = h('section', {
      role: 'tabpanel', id: `panel-${id}`, 'aria-labelledby': `tab-${id}`, hidden: true,
    });
    list.append(button);
    panels.append(panel);
    return {id, title, module, button, panel, handle: null, scrolled: 0};
  });

  function select(entry) {
    if (entry === current) return;
    current?.handle.hide?.();
    if (current) current.scrolled = window.scrollY;
    current = entry;
    for (const each of entries) {
      each.panel.hidden = each !== entry;
      each.button.setAttribute('aria-selected', String(each === entry));
      each.button.tabIndex = each === entry ? 0 : -1;
    }
    document.title = `${entry.title} · Quire`;
    entry.handle = entry.handle ?? entry.module.mount(entry.panel, api) ?? {};
    if (!document.hidden) entry.handle.show?.();
    window.scrollTo(0, entry.scrolled);
  }

  list.addEventListener('keydown', (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    const index = (entries.indexOf(current) + step + entries.length) % entries.length;
    location.hash = entries[index].id;
    entries[index].button.focus();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) current.handle.hide?.();
    else current.handle.show?.();
  });

  const byAddress = () =>
    entries.find(({id}) => `#${id}` === location.hash) ?? (current ? null : entries[0]);
  const follow = () => {
    const entry = byAddress();
    if (entry) select(entry);
  };
  window.addEventListener('hashchange', follow);
  follow();
}
