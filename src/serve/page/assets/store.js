// What the playground remembers, in sessionStorage: it lasts as long as the browser tab.

const NAME = 'quire-playground';
const DELAY_MS = 1000;

// The state as it was saved, or null. What ran then has been cut off since.
export function load() {
  let state;
  try {
    state = JSON.parse(sessionStorage.getItem(NAME));
  } catch {
    return null;
  }
  if (!state?.turns?.chat || !state.turns.completion) return null;  // nothing, or of another version
  for (const turn of Object.values(state.turns).flat()) {
    if (turn.answer.status === 'running') turn.answer.status = 'interrupted';
  }
  return state;
}

function write(state) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(state));
    return true;
  } catch {
    return false;
  }
}

// Long conversations are more than the storage takes (some MiB): the tokens of older answers go
// first, then older turns.
function writeWhatFits(state) {
  if (write(state)) return;
  const slim = structuredClone(state);
  for (const turns of Object.values(slim.turns)) {
    for (const {answer} of turns) answer.choices.forEach((choice) => { choice.tokens = []; });
  }
  while (!write(slim)) {
    const longest = Object.values(slim.turns).reduce((a, b) => a.length >= b.length ? a : b);
    if (longest.length === 0) return;
    longest.shift();
  }
}

// A function that saves what `read()` gives, soon; and at once when the page goes away, or into the
// background, from where phones end it without a word. What happens to a page that has gone (its
// requests fail) is not saved.
export function saver(read) {
  let timer = 0;
  let gone = false;
  const save = () => {
    clearTimeout(timer);
    timer = 0;
    if (!gone) writeWhatFits(read());
  };
  window.addEventListener('pagehide', () => {
    save();
    gone = true;
  });
  window.addEventListener('pageshow', () => { gone = false; });
  document.addEventListener('visibilitychange', () => document.hidden && save());
  return () => {
    if (timer === 0) timer = setTimeout(save, DELAY_MS);
  };
}
