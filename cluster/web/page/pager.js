// Pages of a long list: the server has it, the browser has one page.

import { h, text } from "./dom.js";

// Pager has the cursors of the pages before this one, and two buttons.
export class Pager {
  constructor(load, labels) {
    this.load = load;
    this.cursors = [];
    this.cursor = undefined;
    this.back = h("button", { type: "button", onclick: () => this.turn(-1) }, labels.back);
    this.next = h("button", { type: "button", onclick: () => this.turn(1) }, labels.next);
    this.words = h("span", { role: "status" });
    this.node = h("div", { class: "pager" }, this.back, this.words, this.next);
  }

  // turn goes to the next page, or to the one before.
  turn(by) {
    if (by > 0) this.cursors.push(this.cursor);
    this.cursor = by > 0 ? this.following : this.cursors.pop();
    this.load();
  }

  // first goes to the first page.
  first() {
    this.cursors = [];
    this.cursor = undefined;
  }

  // shown notes what is on the page, and where the next one begins.
  shown(words, following) {
    this.following = following;
    this.back.disabled = this.cursors.length === 0;
    this.next.disabled = following === undefined;
    this.node.classList.toggle("single", this.back.disabled && this.next.disabled);
    text(this.words, words);
  }
}
