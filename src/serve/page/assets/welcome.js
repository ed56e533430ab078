// What stands in the place of a conversation that has not begun.
import {h} from './dom.js';
import {shortName} from './format.js';

const HEADINGS = {chat: 'Talk to the model', completion: 'Let the model go on'};
const EXAMPLES = {
  chat: ['What is the capital of Japan?', 'What is photosynthesis, in one sentence?', 'What is a computer, in one sentence?'],
  completion: ['Once upon a time', 'One, two, three, four,', 'def add(a, b):\n    return'],
};

// `onExample(text)` is called for one that is chosen.
export function welcome(mode, modelName, onExample) {
  return h('div', {class: 'welcome'},
    h('img', {src: new URL('icon.svg', import.meta.url).href, alt: '', width: 64, height: 64}),
    h('h1', {}, HEADINGS[mode]),
    h('p', {class: 'muted'}, `${shortName(modelName)} answers. What you write goes to this server and nowhere else.`),
    h('div', {class: 'examples'}, EXAMPLES[mode].map((text) =>
      h('button', {type: 'button', class: 'plain', onclick: () => onExample(text)}, text.trimEnd()))));
}
