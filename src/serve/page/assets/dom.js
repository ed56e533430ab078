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
  plus: 'M12 5v14M5 12h14',
  list: 'M4 6h16M4 12h16M4 18h10',
  more: 'M5 12h.010M12 12h.010M19 12h.010',
  left: 'M15 5.500 8.500 12l6.500 6.500',
  right: 'M9 5.500l6.500 6.500L9 18.500',
  attach: 'M20 11.500l-8 8a5 5 0 0 1-7-7l8.500-8.500a3.300 3.300 0 0 1 4.700 4.700l-8.500 8.500a1.700 1.700 0 0 1-2.400-2.400l7.700-7.700',
  key: 'M11.500 8a4 4 0 1 1-8 0a4 4 0 0 1 8 0M10.300 10.800l9.700 9.700M16 16.500l2.500-2.500',
  file: 'M13 3H6.500v18h11V7.500zM13 3v4.500h4.500',
  trash: 'M4.500 7h15M9.500 7V4h5v3M6.500 7l1 13h9l1-13M10.500 11v5.500M13.500 11v5.500',
};

export function icon(name) {
  return svg('svg', {viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true'},
             svg('path', {d: ICONS[name]}));
}

const NOTICE_MS = 4000;
const OFFER_MS = 12_000;

// Says something to everybody, also to screen readers, for a few seconds. `offer` is {label, action} of a
// button beside it: it gets the focus, and stays as long as it has it or is pointed
// at.
let noticeTimer = 0;
export function notify(text, offer = null) {
  const notice = document.getElementById('notice');
  const hide = () => {
    if (offer && notice.matches(':hover, :focus-within')) {
      noticeTimer = setTimeout(hide, NOTICE_MS);
      return;
    }
    notice.classList.remove('shown');
    notice.replaceChildren(text);  // nothing that Tab could reach
  };
  const button = offer && h('button', {
    type: 'button',
    onclick: () => {
      clearTimeout(noticeTimer);
      notice.classList.remove('shown');
      notice.replaceChildren();
      offer.action();
    },
    onkeydown: (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      button.blur();
      hide();
    },
  }, offer.label);
  notice.replaceChildren(text, ...(button ? [button] : []));
  notice.classList.add('shown');
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(hide, offer ? OFFER_MS : NOTICE_MS);
  button?.focus();
}
