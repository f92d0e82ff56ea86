// Line charts: steps over time, distributions, curves over load.

const hidden = new Set();

/** Draws any number of steps: in each column of pixels only from the minimum to the maximum. */
function steps(chart, s) {
	const {g, frame: f, view: v} = chart;
	let i = Math.max(above(s.x, v.x0) - 1, 0), last = -Infinity, low = 0, high = 0, end = 0, columns = 0;
	const n = s.x.length;
	if (!n) return;
	g.beginPath();
	g.moveTo(chart.x(s.x[i]), chart.y(s.y[i]));
	const flush = () => {
		if (last === -Infinity) return;
		if (low !== high) { g.lineTo(last, low); g.lineTo(last, high); }
		g.lineTo(last, end);
	};
	for (; i < n; i++) {
		const x = Math.round(chart.x(s.x[i]) * 2) / 2, y = chart.y(s.y[i]);
		if (x !== last) {
			flush();
			if (last !== -Infinity) g.lineTo(x, end);
			if (++columns % 60 === 0) { // The time for one line grows with the square of its steps.
				g.stroke();
				g.beginPath();
				g.moveTo(x, end);
			}
			low = high = last === -Infinity ? y : end;
			last = x;
		}
		low = Math.max(low, y);
		high = Math.min(high, y);
		end = y;
		if (x > f.left + f.w) break;
	}
	flush();
	if (s.hold) g.lineTo(f.left + f.w + 2, end);
	g.stroke();
}

/** Draws straight lines with dots. */
function dots(chart, s) {
	const g = chart.g;
	g.beginPath();
	s.x.forEach((x, i) => g.lineTo(chart.x(x), chart.y(s.y[i])));
	g.stroke();
	g.fillStyle = g.strokeStyle;
	s.x.forEach((x, i) => { g.beginPath(); g.arc(chart.x(x), chart.y(s.y[i]), 4, 0, 7); g.fill(); });
}

// Later lines are painted over earlier ones: where lines coincide, the gaps show the earlier one.
const DASHES = [[], [9, 4], [5, 5], [3, 5], [9, 3, 2, 3], [6, 3, 2, 3, 2, 3], [2, 4]];
const dash = i => DASHES[(i + Math.floor(i / 7)) % 7];

/**
 * A chart of series {name, index, x, y}. o: as Chart, and kind ("steps" or "dots"), value(y),
 * place(x), limit (a dashed series).
 */
function lineChart(o) {
	const seen = () => o.series.filter(s => !hidden.has(s.index));
	const all = o.limit ? [...o.series, o.limit] : o.series;
	let x0 = Infinity, x1 = -Infinity, top = 0;
	for (const s of all) {
		if (!s.x.length) continue;
		x0 = Math.min(x0, s.x[0]);
		x1 = Math.max(x1, s.x[s.x.length - 1]);
		for (const y of s.y) if (y > top) top = y;
	}
	if (!(x1 > x0)) { x0 = isFinite(x0) ? x0 - .5 : 0; x1 = x0 + 1; }
	const pad = o.pad ? (x1 - x0) * .03 : 0;
	const full = {x0: o.from0 ? 0 : x0 - pad, x1: x1 + pad, y0: 0, y1: o.top || Math.max(top * 1.05, 1e-9)};
	return new Chart({
		...o, full: () => full,
		fit(chart) {
			if (o.top) return;
			let most = 0;
			for (const s of [...seen(), ...(o.limit ? [o.limit] : [])]) {
				for (let i = Math.max(above(s.x, chart.view.x0) - 1, 0); i < s.x.length && s.x[i] <= chart.view.x1; i++) if (s.y[i] > most) most = s.y[i];
			}
			chart.view.y0 = 0;
			chart.view.y1 = most > 0 ? most * 1.05 : full.y1;
		},
		paint(chart) {
			const g = chart.g;
			g.lineJoin = 'round';
			if (o.limit) {
				g.strokeStyle = css('--ink');
				g.lineWidth = 1;
				g.setLineDash([4, 3]);
				steps(chart, o.limit);
			}
			g.lineWidth = 1.6;
			for (const s of seen()) {
				g.strokeStyle = colour(s.index);
				g.setLineDash(dash(s.index));
				o.kind === 'dots' ? dots(chart, s) : steps(chart, s);
			}
			g.setLineDash([]);
		},
		hover(chart, event, x) {
			if (o.kind === 'dots') {
				const near = seen().flatMap(s => s.x).reduce((a, b) => Math.abs(b - x) < Math.abs(a - x) ? b : a, Infinity);
				say(event, o.place(near), seen().filter(s => s.x.includes(near)).map(s => [s.name, o.value(s.y[s.x.indexOf(near)]), colour(s.index)]));
				return;
			}
			const rows = [...seen(), ...(o.limit ? [o.limit] : [])].map(s => {
				const i = above(s.x, x) - 1;
				return [s.name, i < 0 ? o.value(0) : o.value(s.y[i]), s.index === undefined ? css('--ink') : colour(s.index)];
			});
			say(event, o.place(x), rows);
		},
	});
}
