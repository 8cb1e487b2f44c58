"""The time of a MiniWoB++ page: it stands still but for what each turn lets pass.

Some tasks depend on time: prices that move, menus that unfold, text that names the day. On a page of its own
clock a turn takes the same time however slow the machine or the agent is, so that the same actions always
lead to the same page, and nobody has to wait for it to pass.

The script is run before a page's own. `agentmemClock.advance(ms)` lets time pass: timers and animation
frames that are due run in order, with the clock at their time. From its end to the next `hold()` the page's
clock is the real one, for BrowserGym's scripts that read the page; the page's own timers wait meanwhile.
`Math.random` is seeded, too, for the few tasks that use it before BrowserGym seeds them.
"""

START_MS = 1_735_732_800_000
"""The time at which every page begins, in milliseconds since 1970: 2025-01-01, 12:00 UTC."""
_FRAME_MS = 16

SCRIPT = """
(() => {
  const RealDate = Date, realNow = performance.now.bind(performance);
  const real = {};
  for (const name of ["setTimeout", "setInterval", "clearTimeout", "clearInterval",
                      "requestAnimationFrame", "cancelAnimationFrame"])
    real[name] = window[name].bind(window);

  let now = 0, held = true, next = 1e9;  // ids above any of the real timers'
  const timers = new Map();
  const time = () => held ? START_MS + now : RealDate.now();

  window.Date = new Proxy(RealDate, {
    construct: (target, given) => given.length ? new target(...given) : new target(time()),
    apply: () => new RealDate(time()).toString(),
    get: (target, name) => name === "now" ? time : target[name],
  });
  performance.now = () => held ? now : realNow();

  const plan = (run, delay, repeats) => {
    timers.set(++next, {run, at: now + delay, every: repeats ? delay : 0});
    return next;
  };
  const runner = (callback, given) => typeof callback === "function"
    ? () => callback.apply(window, given) : () => (0, eval)(callback);
  window.setTimeout = (callback, delay, ...given) => held
    ? plan(runner(callback, given), Math.max(1, +delay || 0)) : real.setTimeout(callback, delay, ...given);
  window.setInterval = (callback, delay, ...given) => held
    ? plan(runner(callback, given), Math.max(1, +delay || 0), true)
    : real.setInterval(callback, delay, ...given);
  window.requestAnimationFrame = callback => held
    ? plan(() => callback(now), FRAME_MS) : real.requestAnimationFrame(callback);
  for (const name of ["clearTimeout", "clearInterval", "cancelAnimationFrame"])
    window[name] = id => { if (!timers.delete(id)) real[name](id); };

  window.agentmemClock = {
    hold() { held = true; },
    advance(ms) {
      held = true;
      const end = now + ms;
      for (;;) {
        let id = null, due = null;
        for (const [one, timer] of timers)
          if (timer.at <= end && (due === null || timer.at < due.at)) [id, due] = [one, timer];
        if (due === null) break;
        now = Math.max(now, due.at);
        if (due.every) due.at = now + due.every; else timers.delete(id);
        try { due.run(); } catch (error) { console.error(error); }
      }
      now = end;
      held = false;
    },
  };

  let state = 1;
  Math.random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
})();
""".replace("START_MS", str(START_MS)).replace("FRAME_MS", str(_FRAME_MS))
