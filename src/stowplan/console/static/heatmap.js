// The map of nodes on a canvas: places the cells, draws them, and finds them again.
// Knows nothing of the API: it gets groups of cells, shares from 0 to 1, and flags.
const CORDONED = 1, TAINTED = 2, NOT_READY = 4;
const LABEL = 26, BELOW = 8, LARGEST = 34, SMALLEST = 6;
const LIGHT = { stops: ["#e3e9f0", "#7fb0dc", "#1f5fa8"], full: "#c4570a", ink: "#1c2126", faint: "#5f6973", bad: "#b00020", mark: "#1c2126", paper: "#ffffff" };
const DARK = { stops: ["#262f38", "#2f6fae", "#9ccbf5"], full: "#f0883e", ink: "#e6e8ea", faint: "#98a2ad", bad: "#ff6b6b", mark: "#ffffff", paper: "#14181c" };
const STEPS = 40;

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp({ stops, full }) {
  const colours = [];
  for (let step = 0; step <= STEPS; step++) {
    const share = step / STEPS;
    const [from, to, rest] = share < 0.5 ? [stops[0], stops[1], share * 2] : [stops[1], stops[2], share * 2 - 1];
    const [a, b] = [channels(from), channels(to)];
    colours.push(share >= 0.9 ? full : `rgb(${a.map((low, i) => Math.round(low + (b[i] - low) * rest)).join(" ")})`);
  }
  return colours;
}

export class HeatMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.groups = [];
    this.cells = [];
  }

  /** `groups` is [{label, members: [index, ...]}]; every index is a node. */
  place(groups, width, height) {
    this.groups = groups;
    this.width = Math.max(width, 120);
    let size = LARGEST;
    while (size > SMALLEST && this.heightAt(size) > height) size--;
    this.size = size;
    this.height = this.heightAt(size);
    this.cells = [];
    this.rows = [];
    let top = 0;
    const across = this.across(size);
    for (const group of groups) {
      group.top = top;
      top += LABEL;
      group.members.forEach((index, at) => {
        if (at % across === 0) this.rows.push([]);
        const cell = { index, x: (at % across) * size, y: top + Math.floor(at / across) * size, row: this.rows.length - 1, at: at % across };
        this.rows.at(-1).push(cell);
        this.cells.push(cell);
      });
      top += Math.ceil(group.members.length / across) * size + BELOW;
    }
    this.order = new Map(this.cells.map((cell, place) => [cell.index, place]));
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
  }

  across(size) {
    return Math.max(1, Math.floor(this.width / size));
  }

  heightAt(size) {
    const across = this.across(size);
    return this.groups.reduce((sum, { members }) => sum + LABEL + BELOW + Math.ceil(members.length / across) * size, 0);
  }

  draw({ shares, flags, dimmed, selected, hovered }) {
    const colours = this.scheme.matches ? DARK : LIGHT;
    const palette = ramp(colours);
    const pen = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.width;
    const gap = this.size > 12 ? 2 : 1, side = this.size - gap;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = "13px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const { label, note, top } of this.groups) {
      pen.fillStyle = colours.ink;
      pen.fillText(label, 0, top + LABEL / 2);
      pen.fillStyle = colours.faint;
      pen.fillText(note, pen.measureText(label).width + 10, top + LABEL / 2);
    }
    for (const { index, x, y } of this.cells) {
      const share = shares[index];
      pen.globalAlpha = dimmed?.[index] ? 0.18 : 1;
      pen.fillStyle = palette[Math.max(0, Math.min(STEPS, Math.round(share * STEPS)))];
      pen.fillRect(x, y, side, side);
      if (flags[index]) this.mark(pen, colours, flags[index], x, y, side);
    }
    pen.globalAlpha = 1;
    for (const [index, colour, width] of [[hovered, colours.faint, 2], [selected, colours.mark, 3]]) {
      const cell = this.cells[this.order.get(index)];
      if (!cell) continue;
      pen.strokeStyle = colours.paper;
      pen.lineWidth = width + 2;
      pen.strokeRect(cell.x, cell.y, side, side);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.strokeRect(cell.x, cell.y, side, side);
    }
  }

  mark(pen, colours, flags, x, y, side) {
    if (flags & CORDONED) {
      pen.strokeStyle = colours.faint;
      pen.lineWidth = side > 10 ? 2 : 1;
      pen.beginPath();
      pen.moveTo(x, y + side);
      pen.lineTo(x + side, y);
      pen.stroke();
    }
    if (flags & TAINTED) {
      const corner = Math.max(2, side / 3.5);
      pen.fillStyle = colours.faint;
      pen.beginPath();
      pen.moveTo(x + side - corner, y);
      pen.lineTo(x + side, y);
      pen.lineTo(x + side, y + corner);
      pen.fill();
    }
    if (flags & NOT_READY) {
      pen.strokeStyle = colours.bad;
      pen.lineWidth = side > 10 ? 2 : 1;
      pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
    }
  }

  /** The node at a point of the canvas, or null. */
  at(x, y) {
    const across = this.across(this.size);
    const column = Math.floor(x / this.size);
    if (column < 0 || column >= across) return null;
    for (const row of this.rows) {
      const top = row[0].y;
      if (y >= top && y < top + this.size) return row[column]?.index ?? null;
    }
    return null;
  }

  box(index) {
    const cell = this.cells[this.order.get(index)];
    return cell && { x: cell.x, y: cell.y, size: this.size };
  }

  /** The node that a key leads to from another; null if the key means nothing here. */
  neighbour(index, key) {
    const place = this.order.get(index);
    const last = this.cells.length - 1;
    if (last < 0) return null;
    if (key === "Home" || (place == null && key.startsWith("Arrow"))) return this.cells[0].index;
    if (key === "End") return this.cells[last].index;
    if (key === "ArrowLeft") return this.cells[Math.max(0, place - 1)].index;
    if (key === "ArrowRight") return this.cells[Math.min(last, place + 1)].index;
    if (key !== "ArrowUp" && key !== "ArrowDown") return null;
    const cell = this.cells[place];
    const row = this.rows[cell.row + (key === "ArrowUp" ? -1 : 1)];
    return row ? row[Math.min(cell.at, row.length - 1)].index : index;
  }

  legend() {
    return ramp(this.scheme.matches ? DARK : LIGHT);
  }
}
