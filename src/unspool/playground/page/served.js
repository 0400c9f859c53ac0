// What the gateway's page has besides: it is imported only where the gateway serves the page.

/** Adds panels; `page` is what the playground offers: addPanel, addressOf, ask, gateway, open, start. */
export function begin(page) {
  void page;
}
