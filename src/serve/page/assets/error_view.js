// An error as the server words it, for people: what is wrong, in which field, and the server's code.
import {h} from './dom.js';

const TITLES = {
  0: 'No connection', 400: 'The request is wrong', 401: 'The key is missing or wrong', 404: 'Not found', 413: 'Too large',
  429: 'Too many requests', 500: 'The server failed', 503: 'The server takes no requests',
};

// Messages repeat the field's name in front; the title already says it.
export function words({message, param}) {
  const start = `${param}: `;
  const text = message.replace(/^request: /, '');
  return param && text.startsWith(start) ? text.slice(start.length) : text;
}

// `error` is any thrown error; `actions` are buttons to put below.
export function errorView(error, actions = []) {
  const param = error.param ?? null;
  const details = [error.status || null, error.code].filter((each) => each !== null && each !== undefined);
  return h('div', {class: 'error', role: 'alert'},
    h('strong', {}, TITLES[error.code === 'not sent' ? 400 : error.status] ?? 'Something went wrong'),
    param ? [' in ', h('code', {}, param)] : null,
    h('p', {}, words({message: error.message, param})),
    details.length > 0 ? h('p', {class: 'muted small'}, details.join(' · ')) : null,
    actions.length > 0 ? h('div', {class: 'row'}, actions) : null);
}
