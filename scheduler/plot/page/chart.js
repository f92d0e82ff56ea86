// A chart: a canvas with axes, zoom and hover. Its creator draws the contents.

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = i => css('--c' + i % 7);
const charts = [];
const LEFT = 88; // pixels left of the frame, equal in all charts, so that their time axes are aligned

/** An element with its text, properties and children. */
function make(tag, text, more = {}, ...children) {
	const e = document.createElement(tag);
	if (text) e.textContent = text;
	Object.assign(e, more);
	e.append(...children);
	return e;
}

const tip = document.getElementById('tip');

/** Shows rows of [name, value, colour] beside the pointer; no title hides them. */
function say(event, title, rows) {
	if (!title) { tip.style.display = 'none'; return; }
	tip.replaceChildren(make('b', title), ...rows.map(([name, value, paint]) => {
		const left = make('span', '');
		if (paint) { const dot = make('i'); dot.style.background = paint; left.append(dot); }
		left.append(name);
		return make('div', '', {}, left, make('span', value));
	}));
	tip.style.display = 'block';
	const box = tip.getBoundingClientRect();
	tip.style.left = Math.max(4, Math.min(event.clientX + 16, innerWidth - box.width - 8)) + 'px';
	tip.style.top = Math.max(4, event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + 'px';
}

class Chart {
	/**
	 * o: title, height, full() -> {x0,x1,y0,y1}, paint(chart), hover(chart, event, x, y),
	 * xTicks(x0, x1, n) and yTicks -> [[at, label]], xLabel, yLabel, and where the owner wants it
	 * group (charts that share their x), both (y is zoomed too) and controls.
	 */
	constructor(o) {
		this.o = o;
		this.canvas = make('canvas', '', {tabIndex: 0});
		this.canvas.setAttribute('role', 'img');
		this.canvas.setAttribute('aria-label', o.title + '. ' + o.yLabel + ' over ' + o.xLabel);
		this.canvas.style.height = o.height + 'px';
		const buttons = [['+', 'zoom in', .5], ['−', 'zoom out', 2]].map(([text, title, by]) =>
			make('button', text, {type: 'button', title, onclick: () => this.zoom(by, .5)}));
		buttons.push(make('button', 'all', {type: 'button', title: 'see everything', onclick: () => this.reset()}));
		this.section = make('section', '', {}, make('div', '', {className: 'head'}, make('h2', o.title), ...(o.controls || []), ...buttons), this.canvas);
		document.getElementById('main').append(this.section);
		this.view = {...o.full()};
		this.back = make('canvas');
		charts.push(this);
		this.listen();
		new ResizeObserver(() => this.draw()).observe(this.canvas);
	}

	listen() {
		const c = this.canvas;
		c.onpointerdown = e => { if (e.button === 0) { c.setPointerCapture(e.pointerId); this.from = {...this.at(e), view: {...this.view}, move: e.shiftKey}; } };
		c.onpointermove = e => this.moved(e);
		c.onpointerup = e => this.released(e);
		c.onpointercancel = () => { this.from = null; this.draw(); };
		c.onpointerleave = () => { this.pointer = null; say(null); this.pointed(); };
		c.ondblclick = () => this.reset();
		c.onwheel = e => {
			if (!e.ctrlKey && !e.metaKey) return;
			e.preventDefault();
			const p = this.at(e);
			this.zoom(Math.exp(Math.sign(e.deltaY) * .25), p.fx, p.fy);
		};
		c.onkeydown = e => {
			const move = {ArrowLeft: -.2, ArrowRight: .2}[e.key];
			if (move) this.show({x0: this.view.x0 + move * (this.view.x1 - this.view.x0), x1: this.view.x1 + move * (this.view.x1 - this.view.x0)});
			else if (e.key === '+') this.zoom(.5, .5);
			else if (e.key === '-') this.zoom(2, .5);
			else if (e.key === '0' || e.key === 'Escape') this.reset();
			else return;
			e.preventDefault();
		};
	}

	/** The position of an event: in pixels, as fractions of the frame, and in data coordinates. */
	at(e) {
		const r = this.canvas.getBoundingClientRect(), f = this.frame, v = this.view;
		const px = e.clientX - r.left, py = e.clientY - r.top;
		const fx = Math.min(1, Math.max(0, (px - f.left) / f.w)), fy = Math.min(1, Math.max(0, (py - f.top) / f.h));
		return {px, py, fx, fy, x: v.x0 + fx * (v.x1 - v.x0), y: v.y1 - fy * (v.y1 - v.y0)};
	}

	moved(e) {
		const p = this.at(e);
		this.pointer = p;
		if (this.from && this.from.move) {
			const v = this.from.view, dx = (p.px - this.from.px) / this.frame.w * (v.x1 - v.x0), dy = (p.py - this.from.py) / this.frame.h * (v.y1 - v.y0);
			this.show({x0: v.x0 - dx, x1: v.x1 - dx, ...(this.o.both ? {y0: v.y0 + dy, y1: v.y1 + dy} : {})});
			return;
		}
		this.pointed();
		this.o.hover(this, e, p.x, p.y);
	}

	released(e) {
		const a = this.from, b = this.at(e);
		this.from = null;
		if (!a || a.move || Math.abs(a.px - b.px) < 5 && !(this.o.both && Math.abs(a.py - b.py) >= 5)) { this.draw(); return; }
		const to = {};
		if (Math.abs(a.px - b.px) >= 5) { to.x0 = Math.min(a.x, b.x); to.x1 = Math.max(a.x, b.x); }
		if (this.o.both && Math.abs(a.py - b.py) >= 5) { to.y0 = Math.min(a.y, b.y); to.y1 = Math.max(a.y, b.y); }
		this.show(to);
	}

	zoom(by, fx, fy = .5) {
		const v = this.view, x = v.x0 + fx * (v.x1 - v.x0), y = v.y1 - fy * (v.y1 - v.y0);
		const to = {x0: x - (x - v.x0) * by, x1: x + (v.x1 - x) * by};
		if (this.o.both) { to.y0 = y - (y - v.y0) * by; to.y1 = y + (v.y1 - y) * by; }
		this.show(to);
	}

	reset() { this.show(this.o.full()); }

	/** Zooms this chart and those of its group to a part of the data. */
	show(to) {
		const put = (chart, part) => {
			const full = chart.o.full(), v = {...chart.view, ...part};
			for (const [a, b] of [['x0', 'x1'], ['y0', 'y1']]) {
				const least = (full[b] - full[a]) * 1e-7, span = Math.min(full[b] - full[a], Math.max(v[b] - v[a], least));
				v[a] = Math.min(Math.max(v[a], full[a]), full[b] - span);
				v[b] = v[a] + span;
			}
			chart.view = v;
			chart.draw();
		};
		put(this, to);
		if (this.o.group) for (const c of charts) if (c !== this && c.o.group === this.o.group) put(c, {x0: this.view.x0, x1: this.view.x1});
	}

	x(v) { return this.frame.left + (v - this.view.x0) / (this.view.x1 - this.view.x0) * this.frame.w; }
	y(v) { return this.frame.top + (this.view.y1 - v) / (this.view.y1 - this.view.y0) * this.frame.h; }

	draw() {
		const c = this.canvas, dpr = devicePixelRatio || 1, w = c.clientWidth, h = c.clientHeight;
		if (!w || !h) return;
		if (c.width !== Math.round(w * dpr) || c.height !== Math.round(h * dpr)) { c.width = Math.round(w * dpr); c.height = Math.round(h * dpr); }
		const g = this.g = c.getContext('2d');
		g.setTransform(dpr, 0, 0, dpr, 0, 0);
		g.clearRect(0, 0, w, h);
		this.frame = {left: LEFT, top: 10, w: Math.max(w - LEFT - 14, 10), h: Math.max(h - 10 - 44, 10)};
		if (this.o.fit) this.o.fit(this);
		this.axes();
		g.save();
		g.beginPath();
		g.rect(this.frame.left, this.frame.top - 1, this.frame.w, this.frame.h + 2);
		g.clip();
		this.o.paint(this);
		g.restore();
		this.back.width = c.width;
		this.back.height = c.height;
		this.back.getContext('2d').drawImage(c, 0, 0);
		this.picked();
	}

	/** Draws only what follows the pointer, over the cached chart. */
	pointed() {
		const g = this.g;
		g.setTransform(1, 0, 0, 1, 0, 0);
		g.clearRect(0, 0, this.canvas.width, this.canvas.height);
		g.drawImage(this.back, 0, 0);
		const dpr = devicePixelRatio || 1;
		g.setTransform(dpr, 0, 0, dpr, 0, 0);
		this.picked();
	}

	axes() {
		const g = this.g, f = this.frame, v = this.view;
		g.font = '12px system-ui, Arial, sans-serif';
		g.lineWidth = 1;
		g.strokeStyle = css('--line');
		g.fillStyle = css('--soft');
		g.textAlign = 'center';
		g.textBaseline = 'top';
		let free = -Infinity;
		for (const [at, label] of this.o.xTicks(v.x0, v.x1, f.w / 110)) {
			const x = this.x(at), half = g.measureText(label).width / 2;
			line(g, x, f.top, x, f.top + f.h);
			if (x - half < free || x + half > f.left + f.w + 14) continue;
			g.fillText(label, x, f.top + f.h + 6);
			free = x + half + 6;
		}
		g.textAlign = 'right';
		g.textBaseline = 'middle';
		for (const [at, label] of this.o.yTicks(v.y0, v.y1, f.h / 50)) {
			const y = this.y(at);
			if (!this.o.noRules) line(g, f.left, y, f.left + f.w, y);
			g.fillText(label, f.left - 7, y, LEFT - 30);
		}
		g.strokeStyle = css('--axis');
		line(g, f.left, f.top + f.h, f.left + f.w, f.top + f.h);
		line(g, f.left, f.top, f.left, f.top + f.h);
		g.fillStyle = css('--ink');
		g.textAlign = 'center';
		g.textBaseline = 'bottom';
		g.fillText(typeof this.o.xLabel === 'function' ? this.o.xLabel(v) : this.o.xLabel, f.left + f.w / 2, this.canvas.clientHeight - 2);
		g.save();
		g.translate(13, f.top + f.h / 2);
		g.rotate(-Math.PI / 2);
		g.fillText(this.o.yLabel, 0, 0);
		g.restore();
	}

	/** The selected interval, and the line at the pointer. */
	picked() {
		const g = this.g, f = this.frame, p = this.pointer;
		if (this.from && !this.from.move && p) {
			g.fillStyle = css('--pick');
			const a = this.from, tall = this.o.both && Math.abs(a.py - p.py) >= 5;
			g.fillRect(Math.min(a.px, p.px), tall ? Math.min(a.py, p.py) : f.top, Math.abs(a.px - p.px), tall ? Math.abs(a.py - p.py) : f.h);
		} else if (p && p.px >= f.left && p.px <= f.left + f.w) {
			g.strokeStyle = css('--axis');
			g.setLineDash([3, 3]);
			line(g, p.px, f.top, p.px, f.top + f.h);
			g.setLineDash([]);
		}
	}
}

function line(g, x0, y0, x1, y1) {
	g.beginPath();
	g.moveTo(Math.round(x0) + .5, Math.round(y0) + .5);
	g.lineTo(Math.round(x1) + .5, Math.round(y1) + .5);
	g.stroke();
}

const timeTicks = (x0, x1, n) => {
	const [, long] = unitFor(x1 - x0);
	return few(x0 / long, x1 / long, n).map(v => [v * long, number(v, 6)]);
};
const countTicks = (y0, y1, n) => few(y0, y1, n).filter(v => v === Math.trunc(v)).map(v => [v, number(v)]);
const shareTicks = (y0, y1, n) => few(y0, y1, n).map(v => [v, number(v * 100) + ' %']);
const timeLabel = v => 'time (' + unitFor(v.x1 - v.x0)[0] + ')';
