// Tabs: the playground, and the panels that a gateway adds.

const tabs = document.getElementById("tabs");
const main = document.querySelector("main");
const panels = [];

function select(panel, focus = false) {
  for (const other of panels) {
    const chosen = other === panel;
    other.section.hidden = !chosen;
    other.tab.setAttribute("aria-selected", String(chosen));
    other.tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) other.tab.focus();
  }
}

function register(title, section) {
  const tab = document.createElement("button");
  tab.type = "button";
  tab.role = "tab";
  tab.textContent = title;
  tab.id = `tab-${section.id}`;
  tab.setAttribute("aria-controls", section.id);
  section.setAttribute("role", "tabpanel");
  section.setAttribute("aria-labelledby", tab.id);
  const panel = { section, tab };
  panels.push(panel);
  tabs.append(tab);
  tabs.hidden = panels.length < 2;
  tab.addEventListener("click", () => select(panel));
  tab.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    select(panels.at((panels.indexOf(panel) + way) % panels.length), true);
  });
  return () => select(panel);
}

const playground = document.getElementById("playground");
/** Shows the playground. */
export const showPlayground = register(playground.dataset.title, playground);
showPlayground();

/** Adds a panel with a tab, and returns the function that shows it. */
export function addPanel(title, element) {
  const section = document.createElement("section");
  section.id = `panel-${panels.length}`;
  section.hidden = true;
  section.append(element);
  main.append(section);
  const show = register(title, section);
  for (const panel of panels) panel.tab.setAttribute("aria-selected", String(!panel.section.hidden));
  return show;
}
