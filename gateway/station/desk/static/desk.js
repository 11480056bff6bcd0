// Keeps pages fresh. Every page works without this file: it adds news, and nothing that decides anything.
"use strict";

(() => {
  const main = document.querySelector("main[data-live]");
  const news = document.getElementById("news");
  if (!main || !news || !window.EventSource) return;

  let shown = null; // the edition that this page was made of
  let fetching = false;

  // Whoever has ticked a row, typed, or opened something is not to have it taken away.
  const busy = () =>
    main.querySelector("input[type=checkbox]:checked, details[open]") !== null ||
    (main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) ||
    String(document.getSelection()).length > 0;

  const renew = async () => {
    if (fetching) return;
    fetching = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
      if (fresh) main.replaceChildren(...fresh.childNodes);
      news.replaceChildren();
    } finally {
      fetching = false;
    }
  };

  const offer = () => {
    const show = document.createElement("button");
    show.type = "button";
    show.textContent = "show";
    show.addEventListener("click", renew);
    news.replaceChildren("There is news: ", show);
  };

  const source = new EventSource("/live");
  source.addEventListener("edition", (event) => {
    if (shown !== null && shown !== event.data) busy() ? offer() : renew();
    shown = event.data;
    document.documentElement.dataset.edition = shown;
  });
  // A browser has six connections for each host; a page that nobody looks at needs none.
  addEventListener("pagehide", () => source.close());
})();
