// Keeps pages fresh. Every page works without this file: it adds news, and nothing that decides anything.
"use strict";

(() => {
  // Ticks all rows of a page; without a script people tick them one by one, or take all that match.
  const offerAll = () => {
    const place = document.querySelector("[data-pick-all]");
    if (!place) return;
    const all = document.createElement("input");
    all.type = "checkbox";
    all.ariaLabel = "Take all of this page";
    all.addEventListener("change", () => {
      for (const one of document.querySelectorAll("td.pick input")) one.checked = all.checked;
    });
    place.replaceChildren(all);
  };
  offerAll();

  // On a narrow screen the fields of a search would be all that one sees first.
  const narrow = matchMedia("(max-width: 820px)");
  const fold = (open = !narrow.matches) => {
    for (const one of document.querySelectorAll("details.choice")) one.open = open;
  };
  fold();
  narrow.addEventListener("change", () => fold());

  const main = document.querySelector("main[data-live]");
  const news = document.getElementById("news");
  if (!main || !news || !window.EventSource) return;

  let shown = null; // the edition that this page was made of
  let fetching = false;

  // Whoever has ticked a row, typed, or opened something is not to have it taken away.
  const busy = () =>
    main.querySelector("input[type=checkbox]:checked, details[open]:not(.choice)") !== null ||
    (main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) ||
    String(document.getSelection()).length > 0;

  const renew = async () => {
    if (fetching) return;
    fetching = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
      if (fresh) {
        const unfolded = main.querySelector("details.choice")?.open;
        main.replaceChildren(...fresh.childNodes);
        main.toggleAttribute("data-moving", fresh.hasAttribute("data-moving"));
        offerAll();
        fold(unfolded);
      }
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
  // What is under way changes more often than there is news of it.
  setInterval(() => main.hasAttribute("data-moving") && !busy() && renew(), 3000);
  // A browser has six connections for each host; a page that nobody looks at needs none.
  addEventListener("pagehide", () => source.close());
})();
