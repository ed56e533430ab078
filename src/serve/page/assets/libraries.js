// Libraries that answers are shown with, each loaded when it is first needed. They are scripts of the
// old kind, which leave a name in the window.

const GLOBALS = {marked: 'marked', highlight: 'hljs', katex: 'katex'};
const loading = new Map();

const here = (file) => new URL(file, import.meta.url).href;

function loadScript(file) {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = here(file);
    script.onload = resolve;
    script.onerror = () => {
      script.remove();
      reject(new Error(`${file} could not be loaded`));
    };
    document.head.append(script);
  });
}

function loadStyle(file) {
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = here(file);
  document.head.append(link);
}

// A promise of the library; one that fails is tried again by the next call.
export function library(name) {
  if (!loading.has(name)) {
    if (name === 'katex') loadStyle('katex.css');
    const promise = loadScript(`${name}.js`).then(() => window[GLOBALS[name]]);
    promise.catch(() => loading.delete(name));
    loading.set(name, promise);
  }
  return loading.get(name);
}
