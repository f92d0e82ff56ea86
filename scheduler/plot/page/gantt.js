// Jobs on GPUs: a row for each GPU, a bar for each run on adjacent ones.

const jobColour = (paints, job) => paints[((job % 12) + 12) % 12];

function ganttChart(runs) {
	let run = runs[0], marked = null, paints = [], theme = '';
	const nodes = () => run.nodes;
	const total = () => nodes().reduce((sum, n) => sum + n.gpus, 0);
	const extent = () => { let end = 0; for (const t of run.gantt.to) if (t > end) end = t; return end || 1; };
	const choose = make('select', '', {title: 'which result'}, ...runs.map((r, i) => make('option', r.name, {value: i})));
	const nodeOf = row => { let first = 0; for (const n of nodes()) { if (row < first + n.gpus) return [n, row - first]; first += n.gpus; } return [null, 0]; };
	const mix = c => { // Six colours and paler ones of the same hue.
		const n = parseInt(c.slice(1), 16), part = s => { const v = n >> s & 255; return Math.round(v + (255 - v) / 3); };
		return `rgb(${part(16)},${part(8)},${part(0)})`;
	};
	const bars = (chart, each) => {
		const b = run.gantt, v = chart.view, t = total();
		for (let i = 0; i < b.job.length; i++) {
			if (b.from[i] > v.x1 || b.to[i] < v.x0) continue;
			const high = t - b.row[i], low = high - b.rows[i];
			if (low > v.y1 || high < v.y0) continue;
			if (each(i, low, high)) return i;
		}
		return -1;
	};
	const chart = new Chart({
		title: 'Jobs on GPUs', height: Math.min(760, Math.max(280, total() * 5 + 54)), both: true, noRules: true, group: 'time',
		controls: runs.length > 1 ? [choose] : [],
		xTicks: timeTicks, xLabel: timeLabel, yLabel: 'nodes and their GPUs',
		full: () => ({x0: 0, x1: Math.max(extent(), lastTime), y0: 0, y1: total()}),
		yTicks(y0, y1, n) {
			const ticks = [], t = total(), every = Math.max(1, Math.ceil(nodes().length * (y1 - y0) / t / Math.min(n * 2, 30)));
			let first = 0;
			nodes().forEach((node, i) => {
				const mid = t - first - node.gpus / 2;
				if (i % every === 0 && mid >= y0 && mid <= y1) ticks.push([mid, node.name]);
				first += node.gpus;
			});
			return ticks;
		},
		paint(c) {
			const g = c.g, b = run.gantt, now = document.documentElement.dataset.theme;
			if (theme !== now) {
				theme = now;
				paints = [0, 1, 2, 3, 4, 5].map(colour);
				paints.push(...paints.map(mix));
			}
			const drawn = new Float64Array(total());
			bars(c, (i, low, high) => {
				const x0 = c.x(b.from[i]), x1 = c.x(b.to[i]);
				if (x1 < drawn[b.row[i]] + .4) return false; // invisible beside the one before
				drawn[b.row[i]] = x1;
				const y0 = c.y(high), y1 = c.y(low), gap = y1 - y0 > 4 ? .5 : 0, w = Math.max(x1 - x0, .4);
				g.globalAlpha = marked === null || marked === b.job[i] ? 1 : .3;
				g.fillStyle = jobColour(paints, b.job[i]);
				g.fillRect(x0, y0 + gap, w > 3 ? w - .5 : w, Math.max(y1 - y0 - 2 * gap, .3));
				return false;
			});
			g.globalAlpha = 1;
			g.strokeStyle = css('--line');
			let first = 0;
			if (c.frame.h / nodes().length > 4) {
				for (const n of nodes()) { first += n.gpus; line(g, c.frame.left, c.y(total() - first), c.frame.left + c.frame.w, c.y(total() - first)); }
			}
		},
		hover(c, event, x, y) {
			const b = run.gantt, i = bars(c, (k, low, high) => b.from[k] <= x && x < b.to[k] && low <= y && y < high);
			const was = marked;
			marked = i < 0 ? null : b.job[i];
			if (marked !== was) c.draw();
			const [node, gpu] = nodeOf(Math.min(total() - 1, Math.max(0, Math.floor(total() - y))));
			const place = node ? node.name + ', GPU ' + gpu : '';
			if (i < 0) { say(event, place, [['at', duration(x)], ['free', '']]); return; }
			const rows = [['GPUs here', number(b.rows[i])], ['from', duration(b.from[i])], ['to', duration(b.to[i])], ['for', duration(b.to[i] - b.from[i])]];
			if (b.preempted[i]) rows.push(['ended', 'preempted']);
			const at = above(run.jobs.id, b.job[i]) - 1, jobs = run.jobs;
			if (at >= 0 && jobs.id[at] === b.job[i]) {
				rows.push(['GPUs in all', number(jobs.gpus[at])], ['submitted', duration(jobs.submit[at])]);
				if (jobs.finish[at] !== null) rows.push(['done after', duration(jobs.finish[at] - jobs.submit[at])]);
			}
			say(event, 'job ' + b.job[i] + ' on ' + place, rows.map(([name, value]) => [name, value, name === 'from' ? jobColour(paints, b.job[i]) : '']));
		},
	});
	chart.canvas.addEventListener('pointerleave', () => { if (marked !== null) { marked = null; chart.draw(); } });
	choose.onchange = () => { run = runs[choose.value]; marked = null; chart.show({...chart.o.full(), x0: chart.view.x0, x1: chart.view.x1}); };
}
