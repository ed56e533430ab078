// Making elements. Text always becomes text: nothing here, and nothing in the page, parses HTML, so
// that no model's answer can be anything but characters.

// h('button', {class: 'quiet', onclick: stop}, 'Stop'). A property that starts with "on" is a
// listener, `class`, `data-*`, `aria-*`, `role` and `for` are attributes, null and undefined are left
// out, anything else is set on the element. Children are nodes, strings or numbers, or lists of them.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (/^(class|role|for|data-.*|aria-.*)$/.test(name)) {
      element.setAttribute(name, value);
    } else {
      element[name] = value;
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// The same for SVG, where all properties are attributes.
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat(Infinity));
  return element;
}

// Lines of 24 by 24, drawn in the colour of the text.
const ICONS = {
  sun: 'M12 4V2M12 22v-2M4 12H2M22 12h-2M6.300 6.300 4.900 4.900M19.100 19.100l-1.400-1.400M6.300 17.700l-1.400 1.400M19.100 4.900l-1.400 1.400M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0z',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z',
  auto: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 3v18M15 5v14M18 7.500v9',
  send: 'M12 20V5M5.500 11 12 4.500 18.500 11',
  stop: 'M7 7h10v10H7z',
  sliders: 'M4 7h9M19 7h1M4 17h3M13 17h7M16 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10 20a3 3 0 1 0 0-6 3 3 0 0 0 0 6z',
  close: 'M6 6l12 12M18 6 6 18',
};

export function icon(name) {
  return svg('svg', {viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true'},
             svg('path', {d: ICONS[name]}));
}

// Says something to everybody, also to screen readers, for a few seconds.
let noticeTimer = 0;
export function notify(text) {
  const notice = document.getElementById('notice');
  notice.textContent = text;
  notice.classList.add('shown');
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.classList.remove('shown'), 4000);
}
