// The page: the data as a table and charts.

const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');
const lastTime = Math.max(1, ...data.runs.map(r => r.timeline.at.length ? r.timeline.at[r.timeline.at.length - 1] : 0));

/** A section with a table: columns are pairs of a heading and a function of a row. */
function tableOf(title, columns, rows) {
	const body = make('tbody', '', {}, ...rows.map(r => make('tr', '', {}, ...columns.map(([, value]) => make('td', value(r))))));
	const head = make('thead', '', {}, make('tr', '', {}, ...columns.map(([name]) => make('th', name))));
	main.append(make('section', '', {}, make('div', '', {className: 'head'}, make('h2', title)),
		make('div', '', {className: 'wide'}, make('table', '', {}, head, body))));
}

const ratio = x => number(x, 4);

/** Waits, slowdowns and fairness; also by user, class and priority where there are several. */
function figures() {
	const runs = data.runs.filter(r => r.summary.jct_s && r.summary.n);
	if (!runs.length) return;
	const both = (name, of, format) => [['mean ' + name, r => format(of(r.summary).mean)], ['p99 ' + name, r => format(of(r.summary).p99)]];
	tableOf('Waits and fairness', [['result', r => r.name], ...both('wait', s => s.wait_s, duration), ...both('slowdown', s => s.slowdown, ratio),
		...both('bounded slowdown', s => s.bounded_slowdown, ratio), ['mean finish-time fairness', r => ratio(r.summary.finish_time_fairness.mean)],
		['worst', r => ratio(r.summary.finish_time_fairness.max)], ['fairness index of users', r => r.summary.users > 1 ? ratio(r.summary.fairness_index) : '–'],
		['GPU hours', r => number(r.summary.gpu_hours, 4)]], runs);
	for (const [title, word, key] of [['By class', 'class', 'by_class'], ['By user', 'user', 'by_user'], ['By priority', 'priority', 'by_priority']]) {
		const rows = runs.flatMap(r => r.summary[key].map(g => ({name: r.name, g})));
		if (!runs.some(r => r.summary[key].length > 1)) continue;
		tableOf(title, [['result', r => r.name], [word, r => r.g.name], ['jobs', r => number(r.g.jobs, 9)], ['GPU hours', r => number(r.g.gpu_hours, 4)],
			['mean JCT', r => duration(r.g.avg_jct_s)], ['p99 JCT', r => duration(r.g.p99_jct_s)], ['mean wait', r => duration(r.g.avg_wait_s)],
			['mean bounded slowdown', r => ratio(r.g.avg_bounded_slowdown)], ['preemptions', r => number(r.g.preemptions, 9)],
			['received', r => number(r.g.received * 100, 3) + ' %']], rows);
	}
}

function table() {
	const columns = [['jobs', s => number(s.n, 9)], ['mean JCT', s => duration(s.avg_jct_s)], ['median JCT', s => duration(s.median_jct_s)],
		['p99 JCT', s => duration(s.p99_jct_s)], ['makespan', s => duration(s.makespan_s)], ['mean start delay', s => duration(s.avg_start_delay_s)],
		['preemptions', s => number(s.preemptions, 9)], ['GPU utilization', s => number(s.gpu_utilisation * 100, 3) + ' %']];
	const body = make('tbody', '', {}, ...data.runs.map(r => make('tr', '', {}, make('td', r.name + (r.summary.partial ? ' (partial)' : '')),
		...columns.map(([, value]) => make('td', value(r.summary))))));
	const head = make('thead', '', {}, make('tr', '', {}, make('th', 'result'), ...columns.map(([name]) => make('th', name))));
	main.append(make('section', '', {}, make('div', '', {className: 'head'}, make('h2', 'Summary')),
		make('div', '', {className: 'wide'}, make('table', '', {}, head, body))));
}

/** The share of finished jobs that took no longer than a time, over its logarithm. */
function distribution(run) {
	const jcts = [];
	run.jobs.finish.forEach((f, i) => { if (f !== null && !run.jobs.lost[i]) jcts.push(Math.max(f - run.jobs.submit[i], .001)); });
	const x = Float64Array.from(jcts).sort();
	return {name: run.name, index: data.names.indexOf(run.name), x: x.map(Math.log), y: Float64Array.from(x, (_, i) => (i + 1) / x.length), hold: true};
}

const overTime = (run, of) => ({name: run.name, index: data.names.indexOf(run.name), x: run.timeline.at, y: of(run.timeline)});

function diagrams() {
	const runs = data.runs;
	if (runs.length) {
		table();
		lineChart({title: 'Job completion time (JCT)', height: 330, kind: 'steps', series: runs.map(r => distribution(r)), top: 1.02, xTicks: logTicks, yTicks: shareTicks,
			xLabel: 'JCT, from submission to end (logarithmic)', yLabel: 'share of jobs',
			place: x => 'within ' + duration(Math.exp(x)), value: y => number(y * 100, 4) + ' %'});
		lineChart({title: 'Queue length', height: 270, kind: 'steps', group: 'time', from0: true, series: runs.map(r => overTime(r, t => t.waiting)),
			xTicks: timeTicks, yTicks: countTicks, xLabel: timeLabel, yLabel: 'waiting jobs', place: x => 'at ' + duration(x), value: y => number(y, 9)});
		const widest = runs.reduce((a, b) => (b.timeline.at.at(-1) || 0) > (a.timeline.at.at(-1) || 0) ? b : a);
		lineChart({title: 'GPUs in use', height: 270, kind: 'steps', group: 'time', from0: true, series: runs.map(r => overTime(r, t => t.busy)),
			limit: {name: 'all GPUs', x: widest.timeline.at, y: widest.timeline.capacity}, xTicks: timeTicks, yTicks: countTicks, xLabel: timeLabel, yLabel: 'GPUs',
			place: x => 'at ' + duration(x), value: y => number(y, 6)});
	}
	const drawn = runs.filter(r => r.gantt.job.length);
	if (drawn.length) ganttChart(drawn);
	if (data.curves.length) {
		const most = Math.max(...data.curves.flatMap(c => c.mean_s)), [unit, long] = unitFor(most);
		lineChart({title: 'Mean JCT over load', height: 330, kind: 'dots', pad: true, series: data.curves.map(c => ({name: c.name, index: data.names.indexOf(c.name), x: c.load, y: c.mean_s})),
			xTicks: (a, b, n) => few(a, b, n).map(v => [v, number(v)]), yTicks: (a, b, n) => few(a / long, b / long, n).map(v => [v * long, number(v)]),
			xLabel: data.loadLabel, yLabel: 'mean JCT (' + unit + ')', place: x => data.loadLabel + ' ' + number(x), value: duration});
	}
	figures();
	for (const note of data.notes) main.append(make('p', note, {className: 'note'}));
}

function legend() {
	data.names.forEach((name, i) => {
		const b = make('button', name, {type: 'button'});
		b.style.setProperty('--mine', `var(--c${i % 7})`);
		b.setAttribute('aria-pressed', 'true');
		b.onclick = () => {
			hidden.has(i) ? hidden.delete(i) : hidden.add(i);
			b.setAttribute('aria-pressed', String(!hidden.has(i)));
			charts.forEach(c => c.draw());
		};
		document.getElementById('legend').append(b);
	});
}

function theme() {
	const dark = matchMedia('(prefers-color-scheme: dark)'), button = document.getElementById('theme');
	const modes = ['system', 'light', 'dark'];
	let mode = 0;
	const apply = () => {
		document.documentElement.dataset.theme = modes[mode] === 'system' ? (dark.matches ? 'dark' : 'light') : modes[mode];
		button.textContent = 'theme: ' + modes[mode];
		charts.forEach(c => c.draw());
	};
	button.onclick = () => { mode = (mode + 1) % 3; apply(); };
	dark.addEventListener('change', apply);
	apply();
}

theme();
legend();
diagrams();
