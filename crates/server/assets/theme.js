// Runs before the style sheet loads, so that the first paint has the right colours.
const theme = localStorage.getItem("planwright-theme");
if (theme === "light" || theme === "dark") {
  document.documentElement.dataset.theme = theme;
}
