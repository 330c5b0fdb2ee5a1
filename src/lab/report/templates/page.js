/* Brings the charts to life: read values with pointer or keys, look closer, see all. Without it the pictures stay. */
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const written = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
  const whole = new Intl.NumberFormat("en", { maximumSignificantDigits: 12 });
  const placed = (value) => (Number.isInteger(value) ? whole : written).format(value);
  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  const enliven = async (place) => {
    const chart = charts[place.dataset.chart];
    const reading = place.nextElementSibling;
    const options = { mode: "vega", renderer: "svg", actions: false, hover: false, tooltip: false };
    const { view } = await vegaEmbed(place, chart.spec, options);
    const points = view.data("points").filter((point) => Number.isFinite(point.x));
    const stops = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
    const [first, last] = [stops[0], stops[stops.length - 1]];
    const over = svg("svg", { class: "over", "aria-hidden": "true" });
    place.append(over);
    let at = null;
    let drag = null;

    const corner = () => [view.origin()[0] + view.padding().left, view.origin()[1] + view.padding().top];
    const x = (value) => corner()[0] + view.scale("x")(value);
    const y = (value) => corner()[1] + view.scale("y")(value);
    const under = (event) => view.scale("x").invert(event.clientX - place.getBoundingClientRect().left - corner()[0]);
    const shown = () => stops.filter((stop) => stop >= view.signal("shown_from") && stop <= view.signal("shown_to"));

    const draw = (brush) => {
      over.replaceChildren();
      const top = corner()[1];
      const height = view.scale("y").range()[0];
      if (brush) {
        const [left, right] = [x(brush[0]), x(brush[1])].sort((a, b) => a - b);
        over.append(svg("rect", { x: left, y: top, width: right - left, height, class: "brush" }));
      }
      if (at === null) return;
      over.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: top + height, class: "at" }));
      for (const point of points) {
        if (point.x === at && point.y !== null) {
          over.append(svg("circle", { cx: x(at), cy: y(point.y), r: 4, style: `fill:${view.scale("color")(point.series)}` }));
        }
      }
    };
    const forget = () => {
      at = null;
      reading.textContent = reading.dataset.hint;
      reading.classList.add("hint");
      draw();
    };
    const read = (stop) => {
      at = stop;
      const said = points
        .filter((point) => point.x === stop)
        .map((point) => `${point.series} ${point.y === null ? "not a number" : written.format(point.y)}`);
      reading.classList.remove("hint");
      reading.textContent = `${chart.x_title} ${placed(stop)} \u00b7 ${said.join(" \u00b7 ")}`;
      draw();
    };
    const move = (by) => {
      const some = shown();
      const now = at === null ? (by > 0 ? -1 : some.length) : some.indexOf(at);
      if (some.length) read(some[Math.min(some.length - 1, Math.max(0, now + by))]);
    };
    const show = async (low, high) => {
      const inside = points.filter((point) => point.x >= low && point.x <= high && point.y !== null);
      if (new Set(inside.map((point) => point.x)).size < 2) return;
      await view.signal("shown_from", low).signal("shown_to", high).runAsync();
      if (at !== null && (at < low || at > high)) forget();
      else draw();
    };
    const zoom = (factor) => {
      const [low, high] = [view.signal("shown_from"), view.signal("shown_to")];
      const middle = at === null ? (low + high) / 2 : at;
      show(Math.max(first, middle - (middle - low) * factor), Math.min(last, middle + (high - middle) * factor));
    };
    const fit = async () => {
      await view.width(Math.max(200, place.clientWidth)).height(place.clientWidth < 520 ? 220 : 270).runAsync();
      over.setAttribute("width", place.clientWidth);
      over.setAttribute("height", place.clientHeight);
      draw();
    };
    const release = (event) => {
      if (drag === null) return;
      const [from, to] = [drag, under(event)].sort((a, b) => a - b);
      drag = null;
      if (x(to) - x(from) > 8) show(from, to);
      else draw();
    };
    const keys = {
      ArrowRight: (event) => move(event.shiftKey ? 10 : 1),
      ArrowLeft: (event) => move(event.shiftKey ? -10 : -1),
      Home: () => read(shown()[0]),
      End: () => read(shown().pop()),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      0: () => show(first, last),
      Escape: () => show(first, last),
    };

    place.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key](event);
    });
    place.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") drag = under(event); });
    place.addEventListener("pointermove", (event) => {
      const target = under(event);
      const some = shown();
      if (some.length) read(some.reduce((best, stop) => (Math.abs(stop - target) < Math.abs(best - target) ? stop : best)));
      if (drag !== null) draw([drag, target]);
    });
    place.addEventListener("pointerup", release);
    place.addEventListener("pointerleave", (event) => { release(event); forget(); });
    place.addEventListener("dblclick", () => show(first, last));
    place.addEventListener("blur", forget);
    new ResizeObserver(fit).observe(place.parentElement);

    place.classList.add("live");
    forget();
  };

  for (const place of document.querySelectorAll("[data-chart]")) enliven(place);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
})();
