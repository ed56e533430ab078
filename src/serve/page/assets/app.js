// The page's beginning: the colour scheme's switch, the API key, what the server says of itself; then
// the tabs.
import {Api} from './api.js';
import {h, icon} from './dom.js';
import {shortName} from './format.js';
import {startTabs} from './tabs.js';

const api = new Api();

// System, light, dark, and round again.
function startTheme() {
  const button = document.getElementById('theme');
  const root = document.documentElement;
  const schemes = ['auto', 'light', 'dark'];
  const names = {auto: 'as the system', light: 'light', dark: 'dark'};
  const icons = {auto: 'auto', light: 'sun', dark: 'moon'};
  const current = () => root.dataset.theme ?? 'auto';
  const show = () => {
    button.replaceChildren(icon(icons[current()]));
    button.title = `Colours: ${names[current()]}`;
    button.setAttribute('aria-label', button.title);
  };
  button.addEventListener('click', () => {
    const next = schemes[(schemes.indexOf(current()) + 1) % schemes.length];
    if (next === 'auto') delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem('quire-theme', next);
    } catch {
      // Then the choice lasts as long as the page.
    }
    show();
  });
  show();
}

// Asks for the key, once however many requests were refused.
let asking = null;
function askForKey(refused) {
  asking ??= showKeyDialog(refused).finally(() => { asking = null; });
  return asking;
}

function showKeyDialog(refused) {
  return new Promise((resolve) => {
    const input = h('input', {
      type: 'password', id: 'api-key', autocomplete: 'off', required: true, spellcheck: false,
    });
    const dialog = h('dialog', {class: 'dialog', 'aria-labelledby': 'key-title'},
      h('form', {
        method: 'dialog',
        onsubmit: (event) => {
          event.preventDefault();
          api.setKey(input.value.trim());
          dialog.close();
        },
      },
      h('h2', {id: 'key-title'}, 'This server needs a key'),
      h('p', {}, 'It is the one that the server was started with (--api-key). This tab keeps it until it is closed.'),
      refused ? h('p', {class: 'wrong', role: 'alert'}, 'That key is wrong.') : null,
      h('label', {for: 'api-key'}, 'API key'),
      input,
      h('div', {class: 'row end'}, h('button', {type: 'submit', class: 'primary'}, 'Continue'))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function loadInfo() {
  for (let refused = false;;) {
    try {
      return await api.json('page/info');
    } catch (error) {
      if (error.status !== 401) throw error;
      await askForKey(refused && api.key !== '');
      refused = true;
    }
  }
}

function showFailure(error) {
  document.getElementById('panels').replaceChildren(
    h('div', {class: 'lonely', role: 'alert'},
      h('h1', {}, 'No answer from the server'),
      h('p', {}, error.message),
      h('button', {type: 'button', class: 'primary', onclick: () => location.reload()}, 'Try again')));
}

async function start() {
  startTheme();
  const keyButton = document.getElementById('key');
  keyButton.prepend(icon('key'));
  keyButton.addEventListener('click', () => askForKey(false));
  try {
    api.info = await loadInfo();
  } catch (error) {
    showFailure(error);
    return;
  }
  keyButton.hidden = api.key === '';
  api.onKeyNeeded = () => askForKey(true);
  const model = document.getElementById('served-model');
  model.textContent = shortName(api.info.model.name);
  model.title = `The model that is served: ${api.info.model.name}`;
  startTabs(api);
}

start();
