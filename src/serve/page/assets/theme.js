// Sets the colour scheme before anything is painted; that is why this is no module. Without a choice
// the system's scheme holds. The switch itself is in app.js.
'use strict';

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('quire-theme');
  } catch {
    // Storage may be forbidden; then the system's scheme holds.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
