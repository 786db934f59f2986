"use strict";
// Text and elements. Whatever comes from a document becomes a text node, never markup.

const fourDigits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Makes an element; `attributes` as in HTML, `children` elements or text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** "1.234", "123,456": four digits that say something, and thousands in groups. */
function numberText(value) {
  if (!Number.isFinite(value)) return "-";
  return Math.abs(value) >= 10000 ? grouped.format(value) : fourDigits.format(value);
}

function percentText(share) {
  return (100 * share).toFixed(1) + " %";
}

/** "+1.2 %": of differences. */
function signedPercentText(share) {
  return (share > 0 ? "+" : "") + percentText(share);
}

/** Nanoseconds for people: "1.234 ms". */
function timeText(nanoseconds) {
  const size = Math.abs(nanoseconds);
  if (size >= 1e9) return numberText(nanoseconds / 1e9) + " s";
  if (size >= 1e6) return numberText(nanoseconds / 1e6) + " ms";
  if (size >= 1e3) return numberText(nanoseconds / 1e3) + " µs";
  return numberText(nanoseconds) + " ns";
}

function millisecondsText(milliseconds) {
  return timeText(milliseconds * 1e6);
}

/** "12.3 GiB", in the units that the programs' tables have. */
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = bytes;
  while (Math.abs(size) >= 1024 && unit + 1 < units.length) {
    size /= 1024;
    ++unit;
  }
  return numberText(size) + " " + units[unit];
}

/** "cpu_update" as words. */
function words(name) {
  return name.replaceAll("_", " ");
}
