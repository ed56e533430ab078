// Conversations as files: JSON with everything, and Markdown with what is shown, to be read by people. Both
// can be read back; a file that is not as it should be is refused with the place where it is not.
import {Conversation, newId, textOf} from './conversation.js';
import {answerWith} from './generation.js';

const FORMAT = 'quire-conversations';
const VERSION = 1;
const ROLES = {system: 'System', user: 'You', assistant: 'Answer'};
const MARK = /^<!-- quire:(system|user|assistant) -->$/;

export function toJson(conversations) {
  const list = conversations.map((each) => ({...each.head(), messages: [...each.messages.values()]}));
  return JSON.stringify({format: FORMAT, version: VERSION, conversations: list}, null, 1);
}

// A line of a text that looks like a mark is told apart by one more "quire:".
const guarded = (text) => text.replace(/^<!-- (quire:)/gm, '<!-- quire:$1');
const unguarded = (text) => text.replace(/^<!-- quire:(quire:)/gm, '<!-- $1');

export function toMarkdown(conversation) {
  const part = (role, text) => `<!-- quire:${role} -->\n## ${ROLES[role]}\n\n${guarded(text)}\n`;
  const files = ({files: list}) => list.map(({name, text}) => {
    const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
    return `File ${name}:\n${fence}\n${text}\n${fence}\n\n`;
  }).join('');
  return [
    `# ${conversation.name}\n`,
    conversation.system.trim() === '' ? null : part('system', conversation.system),
    ...conversation.path().map((each) => part(each.role, each.role === 'user' ? files(each) + each.text : textOf(each))),
  ].filter((each) => each !== null).join('\n');
}

function demand(holds, where, expected) {
  if (!holds) throw new Error(`${where}: expected ${expected}`);
}

const isText = (value) => typeof value === 'string';
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isNumber = (value) => Number.isFinite(value);
const orNull = (check) => (value) => value === null || value === undefined || check(value);

function readTokens(tokens, where) {
  demand(Array.isArray(tokens), where, 'a list');
  const isToken = (each) => isObject(each) && isText(each.text) && orNull(isText)(each.bytes) && orNull(isNumber)(each.logprob);
  tokens.forEach((each, i) => demand(
    isToken(each) && Array.isArray(each.top) && each.top.every(isToken), `${where}[${i}]`, 'text, logprob and top of a token'));
  return tokens;
}

function readAnswer(answer, where) {
  demand(isObject(answer), where, 'an answer');
  demand(Array.isArray(answer.choices) && answer.choices.length > 0, `${where}.choices`, 'a list of at least one output');
  const choices = answer.choices.map((each, i) => {
    const at = `${where}.choices[${i}]`;
    demand(isObject(each) && isText(each.text), `${at}.text`, 'a text');
    demand(orNull(isText)(each.finish), `${at}.finish`, 'a text or null');
    return {text: each.text, tokens: readTokens(each.tokens ?? [], `${at}.tokens`), finish: each.finish ?? null};
  });
  demand(Number.isInteger(answer.shown) && choices[answer.shown], `${where}.shown`, `a number below ${choices.length}`);
  const {request, usage, error} = answer;
  demand(request === null || (isObject(request) && /^v1\/(chat\/)?completions$/.test(request.path) && isObject(request.body)),
         `${where}.request`, 'a request to v1/chat/completions or v1/completions, or null');
  demand(['running', 'done', 'stopped', 'interrupted', 'failed'].includes(answer.status), `${where}.status`, 'how the answer ended');
  demand(orNull(isObject)(usage) && (!usage || (isNumber(usage.prompt_tokens) && isNumber(usage.completion_tokens))),
         `${where}.usage`, 'prompt_tokens and completion_tokens, or null');
  demand(orNull(isObject)(error) && (!error || isText(error.message)), `${where}.error`, 'a message, or null');
  for (const name of ['ttft', 'seconds', 'earlierTokens']) demand(orNull(isNumber)(answer[name]), `${where}.${name}`, 'a number');
  return {
    ...answerWith(''), choices, shown: answer.shown, request, error: error ?? null, usage: usage ?? null,
    status: answer.status === 'running' ? 'interrupted' : answer.status, id: null,
    promptTokens: answer.promptTokens ? readTokens(answer.promptTokens, `${where}.promptTokens`) : null,
    ttft: answer.ttft ?? null, seconds: answer.seconds ?? null, earlierTokens: answer.earlierTokens ?? 0,
    asTokens: answer.asTokens === true,
  };
}

function readMessage(message, before, where) {
  demand(isObject(message) && isText(message.id) && !before.has(message.id), `${where}.id`, 'a text that no other message has');
  const parent = before.get(message.parent);
  demand(message.parent === '' || parent, `${where}.parent`, 'the id of an earlier message, or an empty text');
  const expected = parent?.role === 'user' ? 'assistant' : 'user';
  demand(message.role === expected, `${where}.role`, `"${expected}"`);
  const {id, parent: parentId, role} = message;
  if (role === 'assistant') {
    const {pair = null} = message;
    demand(pair === null || (isText(pair.id) && isText(pair.side) && isText(pair.label)), `${where}.pair`, 'id, side and label, or null');
    return {id, parent: parentId, role, answer: readAnswer(message.answer, `${where}.answer`), pair};
  }
  const files = message.files ?? [];
  demand(isText(message.text), `${where}.text`, 'a text');
  demand(Array.isArray(files) && files.every((each) => isText(each?.name) && isText(each?.text)), `${where}.files`, 'names and texts');
  return {id, parent: parentId, role, text: message.text, files: files.map(({name, text}) => ({name, text}))};
}

function readConversation(data, where) {
  demand(isObject(data), where, 'a conversation');
  demand(data.mode === 'chat' || data.mode === 'completion', `${where}.mode`, '"chat" or "completion"');
  for (const name of ['name', 'system']) demand(isText(data[name]), `${where}.${name}`, 'a text');
  for (const name of ['created', 'updated']) demand(isNumber(data[name]), `${where}.${name}`, 'milliseconds since 1970');
  demand(isObject(data.chosen) && Object.values(data.chosen).every(isText), `${where}.chosen`, 'ids of messages by their parent');
  demand(Array.isArray(data.messages) && data.messages.length > 0, `${where}.messages`, 'a list of at least one message');
  const messages = new Map();
  data.messages.forEach((each, i) => {
    const message = readMessage(each, messages, `${where}.messages[${i}]`);
    messages.set(message.id, message);
  });
  // Another id than its own: it may stand beside the one that it was made from.
  const {name, mode, system, created, updated, chosen} = data;
  return new Conversation({name, renamed: true, mode, system, created, updated, chosen}, messages.values());
}

function fromJson(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw new Error(`it is no JSON: ${error.message}`);
  }
  demand(data?.format === FORMAT, 'format', `"${FORMAT}", as the page's own export has`);
  demand(data.version === VERSION, 'version', `${VERSION}; this page reads no other`);
  demand(Array.isArray(data.conversations), 'conversations', 'a list');
  return data.conversations.map((each, i) => readConversation(each, `conversations[${i}]`));
}

function fromMarkdown(text) {
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const parts = [];
  for (const line of lines) {
    const mark = MARK.exec(line);
    if (mark) parts.push({role: mark[1], lines: []});
    else parts.at(-1)?.lines.push(line);
  }
  demand(parts.length > 0, 'line 1', 'parts that begin with <!-- quire:user --> and <!-- quire:assistant -->, as the page\'s own export has');
  const textIn = ({lines: [, ...rest]}) => unguarded(rest.join('\n')).replace(/^\n/, '').replace(/\n+$/, '');
  const system = parts[0].role === 'system' ? textIn(parts.shift()) : '';
  const name = /^# (.+)$/.exec(lines[0])?.[1] ?? '';
  const conversation = new Conversation({mode: 'chat', system, name, renamed: name !== ''});
  let parent = '';
  parts.forEach((part, i) => {
    const expected = i % 2 === 0 ? 'user' : 'assistant';
    demand(part.role === expected, `part ${i + 1}`, `<!-- quire:${expected} -->`);
    const message = {id: newId(), parent, role: part.role};
    const content = textIn(part);
    conversation.add(part.role === 'user' ? {...message, text: content, files: []} : {...message, answer: answerWith(content), pair: null});
    parent = message.id;
  });
  demand(!conversation.empty, 'the file', 'at least one message');
  return [conversation];
}

// The conversations of a file. Throws Error that says what is wrong where.
export function read(text) {
  return /^\s*[{[]/.test(text) ? fromJson(text) : fromMarkdown(text);
}

// Gives the user a file.
export function download(name, text, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A conversation's name as a file's.
export function fileName(name) {
  return name.normalize('NFKD').replace(/[^\w .-]+/g, '').trim().replace(/\s+/g, '-').slice(0, 60) || 'conversation';
}
