// Decisions: sent until the server has them. The page keeps one that cannot be sent, and sends it again under the same id.
(() => {
  const KEPT = "snellen-review-unsent";
  const WAITS = [300, 700, 1500, 3000];
  const keep = (value) => { try { value ? sessionStorage.setItem(KEPT, JSON.stringify(value)) : sessionStorage.removeItem(KEPT); } catch { /* storage is off */ } };
  const kept = () => { try { return JSON.parse(sessionStorage.getItem(KEPT)); } catch { return null; } };
  let sending = false;

  const say = (text) => {
    const line = document.querySelector("[data-sending]");
    if (line) { line.textContent = text; line.hidden = text === ""; }
  };
  const send = async (decision) => {
    if (sending) return;
    sending = true;
    keep(decision);
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await fetch(decision.action, { method: "POST", body: new URLSearchParams(decision.fields), redirect: "follow" });
        if (answer.ok) { keep(null); location.assign(answer.url); return; }
        if (answer.status < 500 || attempt >= WAITS.length) {
          sending = false;
          if (answer.status === 403) { // a server that was started again may have another token
            say("The server does not know this browser. The decision is kept here: open the address that the server printed at its start, then load this page again.");
            return;
          }
          keep(null);
          const page = await answer.text();
          const problem = new DOMParser().parseFromString(page, "text/html").querySelector(".problem");
          const reason = problem ? problem.textContent : page.slice(0, 300);
          say(`The server did not take the decision (${answer.status}). ${reason}`);
          return;
        }
      } catch {
        say(`The server does not answer. The decision is kept here and is sent as soon as it answers: start the server again, with --port ${location.port}.`);
      }
      await new Promise((resume) => setTimeout(resume, WAITS[Math.min(attempt, WAITS.length - 1)]));
    }
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-review]") || !event.submitter) return;
    event.preventDefault();
    const fields = [...new FormData(form).entries()].map(([name, value]) => [name, String(value)]);
    send({ review: form.dataset.review, action: form.action, fields: [...fields, ["decision", event.submitter.value]] });
  });
  // A page from the browser's memory has the id of a decision that was sent: ask for a fresh one.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  document.addEventListener("DOMContentLoaded", () => {
    const unsent = kept();
    const form = document.querySelector("form[data-review]");
    if (innerWidth > 900) document.querySelector("[data-focus]")?.focus({ preventScroll: true }); // beside the question, not below it
    if (document.querySelector("[data-wait]")) setTimeout(() => location.reload(), 1000);
    // Another review may be served at the same address, with candidates of the same numbers.
    if (unsent && form && unsent.review === form.dataset.review) send(unsent);
  });
})();
