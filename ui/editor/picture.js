// A chart as PNG: the chart's own image (`/chart.svg`, the link beside the button), drawn by the browser that shows the page. So the picture
// has the same strokes, colours and letters as the page; on the server it would need fonts, and a renderer that knows as much CSS.

/** Pixels of the picture for one of the image. */
const SCALE = 2;

/** Draws what the link beside a button leads to and has the browser keep it. */
export async function save(button) {
  const link = button.closest("li").querySelector("a[download]");
  try {
    await draw(new URL(link.href));
  } catch {
    button.textContent = "Not drawn: take the SVG";
  }
}

async function draw(url) {
  if (isDark()) url.searchParams.set("theme", "dark");
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth * SCALE;
  canvas.height = image.naturalHeight * SCALE;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const picture = await new Promise(done => canvas.toBlob(done, "image/png"));
  const kept = Object.assign(document.createElement("a"), { href: URL.createObjectURL(picture), download: name(url) });
  kept.click();
  // The browser has taken it long before.
  setTimeout(() => URL.revokeObjectURL(kept.href), 60_000);
}

/** Whether the page is dark now: as chosen, or as the system is. */
function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** `TTFT percentiles` is kept as `ttft-percentiles.png`. */
function name(url) {
  const words = (url.searchParams.get("chart") ?? "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${words || "tokenwatt"}.png`;
}
