// What else the model might have said: the alternatives of the token that is pointed at, with their
// probabilities.
import {h} from './dom.js';
import {percent, significant} from './format.js';
import {shownText} from './token_strip.js';

let current = null;  // {card, element}

export function hideAlternatives() {
  current?.element.removeAttribute('aria-describedby');
  current?.card.remove();
  current = null;
}

// `token`: {text or bytes, logprob, top, forced}; `element` is what shows it.
export function showAlternatives(token, element) {
  hideAlternatives();
  const sameText = (other) => other.text === token.text && other.bytes === token.bytes;
  const rows = token.top.map((each) => ({...each, chosen: sameText(each)}));
  if (!rows.some(({chosen}) => chosen)) rows.push({...token, chosen: true});
  const card = h('div', {class: 'card', role: 'tooltip', id: 'alternatives'},
    h('p', {class: 'small'}, h('strong', {}, percent(Math.exp(token.logprob))),
      h('span', {class: 'muted'}, ` likely · logprob ${significant(token.logprob)}`)),
    token.forced ? h('p', {class: 'small'}, 'Forced: structured_outputs left no other token.') : '',
    h('ol', {class: 'alternatives'}, rows.map((row) => {
      const share = Math.exp(row.logprob);
      const bar = h('span', {class: 'share'});
      bar.style.width = `${Math.max(share * 100, 0.5)}%`;
      return h('li', {class: row.chosen ? 'chosen' : null},
        h('code', {}, shownText(row).replaceAll('\n', '').replaceAll(' ', '␣')),
        h('span', {class: 'track'}, bar), h('span', {class: 'number'}, percent(share)));
    })));
  document.body.append(card);
  element.setAttribute('aria-describedby', 'alternatives');
  place(card, element.getClientRects()[0] ?? element.getBoundingClientRect());
  current = {card, element};
}

// Below the token, above it where there is no room, and always within the window.
function place(card, target) {
  const gap = 6;
  const left = Math.min(Math.max(target.left, gap), innerWidth - card.offsetWidth - gap);
  const below = target.bottom + gap + card.offsetHeight < innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${below ? target.bottom + gap : Math.max(gap, target.top - gap - card.offsetHeight)}px`;
}

window.addEventListener('scroll', hideAlternatives, {passive: true, capture: true});
