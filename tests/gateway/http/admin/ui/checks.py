# ruff: noqa: E501  (JavaScript)
"""What a page must keep for those who cannot see it, or cannot use a mouse; run inside the page."""

IN_PAGE = r"""
() => {
  const wrong = [];
  const shown = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== "hidden";
  const name = (node) => (node.getAttribute("aria-label") || "").trim()
    || (node.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ").trim()
    || [...(node.labels || [])].map((label) => label.textContent).join(" ").trim()
    || node.textContent.trim() || node.getAttribute("alt") || "";
  for (const node of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a, meter, [role=region]"))
    if (!name(node)) wrong.push(`no name: ${node.outerHTML.slice(0, 90)}`);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) wrong.push(`id twice: ${id}`);
  for (const node of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls]"))
    for (const what of ["aria-labelledby", "aria-describedby", "aria-controls"])
      for (const id of (node.getAttribute(what) || "").split(" ").filter(Boolean))
        if (!document.getElementById(id)) wrong.push(`${what} leads nowhere: ${id}`);
  const heads = [...document.querySelectorAll("h1, h2, h3, h4")].map((node) => Number(node.tagName[1]));
  if (heads.filter((level) => level === 1).length !== 1) wrong.push(`h1: ${heads}`);
  heads.forEach((level, at) => { if (at && level > heads[at - 1] + 1) wrong.push(`a heading level is left out: ${heads}`); });
  if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
  if (!document.documentElement.lang || !document.title.trim()) wrong.push("no language or title");
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) wrong.push(`no caption: ${table.outerHTML.slice(0, 90)}`);
    for (const head of table.querySelectorAll("th")) if (!head.scope) wrong.push(`no scope: ${head.outerHTML}`);
  }
  for (const image of document.querySelectorAll("img")) if (image.getAttribute("alt") === null) wrong.push("no alt");
  for (const node of document.querySelectorAll("[style], style, [onclick], [onload], script:not([src])"))
    if (!node.closest(".plot")) wrong.push(`inline: ${node.outerHTML.slice(0, 90)}`);

  const parse = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = ([red, green, blue]) => [red, green, blue].map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.alpha > 0.99) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(node) || !shown(node) || node.closest("canvas, .unseen, option")) continue;
    seen.add(node);
    const style = getComputedStyle(node);
    const [front, back] = [light(parse(style.color).rgb), light(behind(node))];
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) wrong.push(`contrast ${contrast.toFixed(2)}: ${node.textContent.trim().slice(0, 50)}`);
  }
  if (document.documentElement.scrollWidth > window.innerWidth + 1) wrong.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  return wrong;
}
"""
