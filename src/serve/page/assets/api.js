// The way to the server: requests with the API key, errors as the server words them, event streams.
//
// Addresses are relative to where the page's own files came from, so that the page also works behind
// a proxy that adds a prefix.

const KEY_NAME = 'quire-api-key';

function storedKey() {
  try {
    return sessionStorage.getItem(KEY_NAME) ?? '';
  } catch {
    return '';  // storage may be forbidden
  }
}

// An answer that is no success. `message`, `type`, `param` and `code` are the server's; `status` is 0
// where no answer came at all.
export class ServerError extends Error {
  constructor(status, {message, type = '', param = null, code = null}) {
    super(message);
    this.name = 'ServerError';
    this.status = status;
    this.type = type;
    this.param = param;
    this.code = code;
  }
}

export class Api {
  constructor() {
    this.base = new URL('../', import.meta.url);
    this.key = storedKey();
    this.info = null;         // GET /page/info, once it is known
    this.onKeyNeeded = null;  // called where the server refuses the key
  }

  // For this browser tab only: gone when it is closed.
  setKey(key) {
    this.key = key;
    try {
      sessionStorage.setItem(KEY_NAME, key);
    } catch {
      // Then the key lasts as long as the page.
    }
  }

  url(path) {
    return new URL(path, this.base);
  }

  // As fetch(), with the key; throws ServerError unless the answer is a success. `path` has no slash
  // at its beginning.
  async request(path, {method = 'GET', body, signal, requestId} = {}) {
    const headers = {};
    if (this.key !== '') headers.Authorization = `Bearer ${this.key}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    if (requestId !== undefined) headers['X-Request-Id'] = requestId;
    let response;
    try {
      response = await fetch(this.url(path), {
        method, headers, signal, cache: method === 'GET' ? 'no-store' : 'default',
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ServerError(0, {message: 'The server cannot be reached. Is it still running?'});
    }
    if (response.ok) return response;
    if (response.status === 401 && this.onKeyNeeded) this.onKeyNeeded();
    throw await readError(response);
  }

  async json(path, options) {
    return (await this.request(path, options)).json();
  }

  // The events of a stream: the parsed JSON of each, until the stream's end or "[DONE]". An event
  // that is an error is thrown.
  async* events(path, options) {
    const response = await this.request(path, options);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    try {
      for (;;) {
        const {value, done} = await reader.read();
        if (done) return;
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data:')) continue;
          const data = line.slice(5).trim();
          if (data === '[DONE]') return;
          const event = JSON.parse(data);
          if (event.error) throw new ServerError(response.status, event.error);
          yield event;
        }
      }
    } finally {
      await reader.cancel().catch(() => {});
    }
  }
}

async function readError(response) {
  try {
    const {error} = await response.json();
    if (error?.message) return new ServerError(response.status, error);
  } catch {
    // Not our server's words: a proxy's, perhaps.
  }
  return new ServerError(response.status,
                         {message: `${response.status} ${response.statusText}`.trim()});
}
