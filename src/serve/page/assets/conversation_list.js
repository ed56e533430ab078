// The list of conversations at the page's side: search, a menu for each, import and export.
import {h, icon} from './dom.js';
import {count} from './format.js';
import {openMenu} from './overlay.js';

const MOST_SHOWN = 200;
const DAY_MS = 86_400_000;

function ageOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return 'Today';
  return time >= today - 6 * DAY_MS ? 'Last seven days' : 'Earlier';
}

const titleOf = ({name, updated}) => `${name}\n${new Date(updated).toLocaleString()}`;

export class ConversationList {
  // `actions`: onNew(), onOpen(id), onRename(head), onDelete(heads), onExport(heads, kind), onImport(files);
  // `keeps`: whether the browser keeps conversations.
  constructor(actions) {
    this.actions = actions;
    this.read = () => [];
    this.openId = null;
    this.shown = '';       // what the list was made of
    this.menuOpen = false;
    this.closeButton = h('button', {type: 'button', class: 'quiet icon', 'aria-label': 'Close', title: 'Close (Escape)'}, icon('close'));
    this.search = h('input', {
      type: 'search', id: 'search', placeholder: 'Search', autocomplete: 'off', 'aria-label': 'Search the conversations', oninput: () => this.show(),
    });
    this.list = h('div', {class: 'conversations'});
    this.state = h('p', {class: 'small muted', role: 'status'});
    this.input = h('input', {
      type: 'file', multiple: true, hidden: true, accept: '.json,.md,application/json,text/markdown', 'aria-label': 'Files to import',
      onchange: async () => {
        await actions.onImport([...this.input.files]);
        this.input.value = '';
      },
    });
    this.all = h('button', {
      type: 'button', class: 'quiet small', 'aria-haspopup': 'menu', onclick: () => openMenu(this.all, 'All conversations', [
        ['Import…', () => this.input.click()],
        ...(this.read('').length === 0 ? [] : [
          ['Export all as JSON', () => actions.onExport(this.read(''), 'json')],
          ['Delete all', () => actions.onDelete(this.read(''))],
        ]),
      ]),
    }, 'Import, export');
    this.element = h('nav', {class: 'history', id: 'history', 'aria-label': 'Conversations'},
      h('div', {class: 'row closing'}, h('h2', {class: 'grow'}, 'Conversations'), this.closeButton),
      h('button', {type: 'button', class: 'plain row new', onclick: () => actions.onNew()}, icon('plus'), 'New conversation'),
      this.search, this.state, this.list, h('div', {class: 'row history-foot'}, this.all, this.input));
  }

  // `read(query)` gives the heads to show, latest first; `openId` names the one that is open. What is shown
  // stays as long as it says the same, so that nothing goes from under the pointer, and while a menu is open
  // at one of its buttons.
  show({read = this.read, openId = this.openId} = {}) {
    Object.assign(this, {read, openId});
    if (this.menuOpen) return;
    const query = this.search.value.trim();
    const heads = read(query);
    const says = JSON.stringify([query, openId, heads.length, heads.slice(0, MOST_SHOWN).map(({id, name, updated}) => [id, name, ageOf(updated)])]);
    if (says === this.shown) {
      this.list.querySelectorAll('.name').forEach((each, i) => { each.title = titleOf(heads[i]); });
      return;
    }
    this.shown = says;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset : null;
    this.list.replaceChildren();
    for (const age of ['Today', 'Last seven days', 'Earlier']) {
      const some = heads.slice(0, MOST_SHOWN).filter(({updated}) => ageOf(updated) === age);
      if (some.length === 0) continue;
      this.list.append(h('h2', {}, age), h('ul', {}, some.map((head) => this.#item(head))));
    }
    this.state.textContent = this.#stateOf(query, heads.length);
    if (focused) this.list.querySelector(`[data-id="${focused.id}"][data-part="${focused.part}"]`)?.focus();
  }

  #stateOf(query, found) {
    if (found > MOST_SHOWN) return `The latest ${count(MOST_SHOWN)} of ${count(found)}; search for others.`;
    if (query !== '') return found === 0 ? 'No conversation says that.' : `${count(found)} found`;
    if (!this.actions.keeps) return 'This browser keeps nothing for the page: conversations last until it is closed or loaded anew.';
    return found === 0 ? 'Conversations are kept here, on this machine.' : '';
  }

  #item(head) {
    const current = head.id === this.openId;
    const more = h('button', {
      type: 'button', class: 'quiet icon more', 'data-id': head.id, 'data-part': 'more', 'aria-haspopup': 'menu',
      'aria-label': `${head.name}: rename, export, delete`, title: 'Rename, export, delete',
      onclick: () => this.#menu(more, head),
    }, icon('more'));
    return h('li', {class: current ? 'current' : null},
      h('button', {
        type: 'button', class: 'name', 'data-id': head.id, 'data-part': 'name', 'aria-current': current ? 'true' : null,
        title: titleOf(head), onclick: () => this.actions.onOpen(head.id),
      }, head.name), more);
  }

  #menu(button, head) {
    this.menuOpen = true;
    openMenu(button, head.name, [
      ['Rename', () => this.actions.onRename(head)],
      ['Export as Markdown', () => this.actions.onExport([head], 'markdown')],
      ['Export as JSON', () => this.actions.onExport([head], 'json')],
      ['Delete', () => this.actions.onDelete([head])],
    ], () => {
      this.menuOpen = false;
      this.show();
    });
  }
}
