// Before the first paint: the theme that was chosen here, else that of the system.
"use strict";
try {
  const chosen = localStorage.getItem("cronhpa-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser without storage gets the system's theme.
}
