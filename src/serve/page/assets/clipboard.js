// Copying text, and saying so.
import {notify} from './dom.js';

// Without TLS browsers give pages no clipboard.
export async function copyText(text, button = null) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    notify('The browser does not let this page copy; select the text instead');
    return;
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
