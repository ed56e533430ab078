// What lies over the page for a moment: a question with one field, a menu, a drawer.
import {h} from './dom.js';

// Asks for a line of text; null where the user goes back.
export function ask({title, label, value = '', action, note = null}) {
  return new Promise((resolve) => {
    let answer = null;
    const input = h('input', {type: 'text', id: 'asked', value, required: true, autocomplete: 'off', maxLength: 200});
    const dialog = h('dialog', {class: 'dialog small-dialog', 'aria-labelledby': 'asked-title'},
      h('form', {
        method: 'dialog',
        onsubmit: (event) => {
          event.preventDefault();
          if (input.value.trim() === '') return;
          answer = input.value.trim();
          dialog.close();
        },
      },
      h('h2', {id: 'asked-title'}, title), h('label', {for: 'asked'}, label), input,
      note ? h('p', {class: 'small muted'}, note) : null,
      h('div', {class: 'row end'},
        h('button', {type: 'button', class: 'quiet', onclick: () => dialog.close()}, 'Cancel'),
        h('button', {type: 'submit', class: 'primary'}, action))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}

// A menu at a button. `items`: [text, action] each; `onClose` is called when it has gone.
export function openMenu(button, label, items, onClose = () => {}) {
  const close = () => menu.hidePopover();
  const menu = h('div', {
    class: 'menu', popover: 'auto', role: 'menu', 'aria-label': label,
    onkeydown: (event) => {
      const buttons = [...menu.children];
      const at = buttons.indexOf(document.activeElement);
      const next = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1}[event.key];
      if (event.key === 'Tab') close();
      if (next === undefined) return;
      event.preventDefault();
      buttons.at(next % buttons.length).focus();
    },
    ontoggle: (event) => {
      button.setAttribute('aria-expanded', String(event.newState === 'open'));
      if (event.newState !== 'closed') return;
      menu.remove();
      onClose();
    },
  }, items.map(([text, action]) => h('button', {
    type: 'button', role: 'menuitem', tabIndex: -1,
    onclick: () => {
      button.focus();
      close();
      action();
    },
  }, text)));
  button.after(menu);
  menu.showPopover();
  const place = button.getBoundingClientRect();
  const below = place.bottom + 4 + menu.offsetHeight < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(place.left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${below ? place.bottom + 4 : Math.max(8, place.top - 4 - menu.offsetHeight)}px`;
  menu.firstElementChild.focus();
}

// A side of the page that lies over the rest on narrow windows, where `button` opens it.
export class Drawer {
  constructor(element, button, closeButton) {
    Object.assign(this, {element, button, closeButton});
    for (const each of [button, closeButton]) each.addEventListener('click', () => this.toggle());
  }

  get open() {
    return this.element.classList.contains('open');
  }

  toggle() {
    const open = this.element.classList.toggle('open');
    this.button.setAttribute('aria-expanded', String(open));
    (open ? this.closeButton : this.button).focus();
  }

  // Makes it visible where the window hides it.
  show() {
    if (!this.element.checkVisibility()) this.toggle();
  }

  close() {
    if (this.open) this.toggle();
  }
}
