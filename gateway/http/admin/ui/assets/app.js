// What the pages do beyond links and forms: the menu on narrow screens, pausing, copying.
"use strict";

document.documentElement.classList.add("js");

const paused = () => document.querySelector("[data-pause][aria-pressed='true']") !== null;

document.addEventListener("click", (event) => {
  const menu = event.target.closest("[data-menu]");
  if (menu) menu.setAttribute("aria-expanded", String(menu.closest(".side").classList.toggle("open")));
  const pause = event.target.closest("[data-pause]");
  if (pause) {
    const now = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(now));
    const state = document.getElementById("feed-state");
    if (state) state.textContent = now ? "Paused" : "Live, every 2 seconds";
  }
  const copy = event.target.closest("[data-copy]");
  if (copy && navigator.clipboard) {
    const text = document.getElementById(copy.dataset.copy).textContent.trim();
    navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; });
  }
});

// Asking again is for what somebody sees: not while paused, hidden, or read with the keyboard.
document.addEventListener("htmx:beforeRequest", (event) => {
  const live = event.target;
  if (!live.matches("[data-live]")) return;
  const read = live.contains(document.activeElement) || live.querySelector("details[open]");
  if (document.hidden || paused() || read) event.preventDefault();
});

// A polled part whose gateway is away says so, and goes on asking.
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, () => {
    const away = document.getElementById("away");
    if (away) away.hidden = false;
  });
}
document.addEventListener("htmx:afterOnLoad", (event) => {
  const away = document.getElementById("away");
  if (away && event.detail.successful) away.hidden = true;
});

// A form that changes something is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const sent = event.target;
  if (sent.dataset.sent) event.preventDefault();
  else if (sent.method === "post") sent.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
