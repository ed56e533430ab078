// Copying text, and saying so.
import {h, notify} from './dom.js';

// Whether the browser has copied it as a selection: elsewhere than on the browser's own machine, pages have a
// clipboard with TLS only. What lies outside of an open dialog cannot be selected.
function copySelection(text) {
  const focused = document.activeElement;
  const area = h('textarea', {class: 'unseen', value: text, readOnly: true, tabIndex: -1, 'aria-label': 'Copied text'});
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  focused?.focus({preventScroll: true});
  return copied;
}

export async function copyText(text, button = null) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copySelection(text)) {
      notify('The browser does not let this page copy; select the text instead');
      return;
    }
  }
  if (!button) {
    notify('Copied');
    return;
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = before; }, 1500);
}
