// What the playground remembers of this browser tab, in sessionStorage: which conversation is open, the
// settings, what a new conversation begins with. Where storage is forbidden it lasts as long as the page.

const NAME = 'quire-playground';

export function load() {
  try {
    const state = JSON.parse(sessionStorage.getItem(NAME));
    return state?.version === 2 ? state : null;  // nothing, or of another version
  } catch {
    return null;
  }
}

export function save(state) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify({...state, version: 2}));
  } catch {
    // Then it lasts as long as the page.
  }
}
