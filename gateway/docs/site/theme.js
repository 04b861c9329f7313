// Sets the reader's theme before the page is shown.
try {
  const theme = localStorage.getItem('guide-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: then the system's theme.
}
