// Follows the fleet: asks for the document again and again, and tells what came of it.

const PAUSE_SECONDS = 5;
const LONGEST_PAUSE_SECONDS = 60;
const KEY = "lode-token";

/** The server answered that it does not. */
export class Refused extends Error {
  constructor(status, said) {
    super(said.error ?? `The server answers with status ${status}.`);
    this.status = status;
    this.faults = said.faults ?? [];
  }
}

/** Take the token out of the address, so that neither the history nor a copied link has it. */
export function keepToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

export const useToken = (token) => sessionStorage.setItem(KEY, token);

/** Ask the server. Raises Refused, or TypeError if it cannot be reached. */
export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok || response.status === 304) return response;
  throw new Refused(response.status, await response.json().catch(() => ({})));
}

/** Follows the document until the page is left; not while nobody sees the page. */
export class Feed {
  #tag = "";
  #failures = 0;
  #timer = 0;
  #asking = false;

  /**
   * @param told gets the document, if it is another one than before.
   * @param heard gets the age of the data in seconds after each answer.
   * @param failed gets the error after each failure.
   */
  constructor(told, heard, failed) {
    Object.assign(this, { told, heard, failed });
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
  }

  /** Ask at once. */
  async now() {
    if (this.#asking) return;
    clearTimeout(this.#timer);
    this.#asking = true;
    try {
      const response = await ask("fleet.json", { headers: this.#tag ? { "If-None-Match": this.#tag } : {} });
      const age = Number(response.headers.get("Age") ?? 0);
      if (response.status !== 304) {
        const fleet = await response.json();
        this.told(fleet);
        this.#tag = response.headers.get("ETag") ?? "";
      }
      this.#failures = 0;
      this.heard(age);
    } catch (error) {
      this.#failures++;
      this.failed(error);
    } finally {
      this.#asking = false;
      this.#later();
    }
  }

  #later() {
    const first = this.#tag ? PAUSE_SECONDS : 1;
    const pause = this.#failures ? Math.min(first * 2 ** (this.#failures - 1), LONGEST_PAUSE_SECONDS) : PAUSE_SECONDS;
    this.#timer = setTimeout(() => (document.hidden ? this.#later() : this.now()), pause * 1000);
  }
}
