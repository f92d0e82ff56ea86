// Readable numbers and times, and the ticks of axes.

const UNITS = [['s', 1], ['min', 60], ['h', 3600], ['days', 86400]];

/** The unit in which a span of seconds is a readable number. */
function unitFor(span) {
	let fit = UNITS[0];
	for (const u of UNITS) if (span >= 4 * u[1]) fit = u;
	return fit;
}

/** A number with a limited number of significant digits. */
function number(v, digits = 4) {
	if (!isFinite(v)) return '–';
	if (Math.abs(v) >= 1e15) return v.toExponential(2);
	return v.toLocaleString('en', {maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(v) + 1)))});
}

/** A time in a suitable unit. */
function duration(s) {
	if (s === null || !isFinite(s)) return '–';
	if (s !== 0 && Math.abs(s) < 1) return number(s * 1000, 3) + ' ms';
	const [name, long] = Math.abs(s) < 120 ? UNITS[0] : Math.abs(s) < 7200 ? UNITS[1] : Math.abs(s) < 172800 ? UNITS[2] : UNITS[3];
	return number(s / long, 4) + ' ' + name;
}

/** Round numbers between two others, about as many as requested. */
function few(least, most, about) {
	if (!(most > least)) return [least];
	const rough = (most - least) / Math.max(about, 1);
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = power * ([1, 2, 2.5, 5, 10].find(t => t * power >= rough) || 10);
	const at = [];
	for (let k = Math.ceil(least / step - 1e-9); k * step <= most + step * 1e-9; k++) at.push(k * step + 0);
	return at;
}

const MARKS = [[.001, '1 ms'], [.01, '10 ms'], [.1, '0.1 s'], [1, '1 s'], [10, '10 s'], [60, '1 min'], [600, '10 min'], [3600, '1 h'], [21600, '6 h'],
	[86400, '1 day'], [604800, '1 week'], [2592000, '30 days'], [31536000, '1 year'], [315360000, '10 years'], [3153600000, '100 years']];

// Marks between those.
const FINE = [[.002, '2 ms'], [.005, '5 ms'], [.02, '20 ms'], [.05, '50 ms'], [.2, '0.2 s'], [.5, '0.5 s'], [2, '2 s'], [5, '5 s'], [20, '20 s'], [40, '40 s'],
	[120, '2 min'], [300, '5 min'], [1200, '20 min'], [2400, '40 min'], [7200, '2 h'], [14400, '4 h'], [43200, '12 h'], [172800, '2 days'], [345600, '4 days'],
	[1209600, '2 weeks'], [7776000, '90 days'], [15552000, '180 days'], [63072000, '2 years'], [157680000, '5 years']];

/**
 * Ticks of an axis of logarithms of seconds: the usual times, with those between them if few are
 * visible, or round ones.
 */
function logTicks(least, most, about) {
	const seen = marks => marks.map(([s, label]) => [Math.log(s), label]).filter(([x]) => x >= least && x <= most);
	const known = seen(MARKS), finer = known.length < 6 ? [...known, ...seen(FINE)].sort((a, b) => a[0] - b[0]) : known;
	if (finer.length >= 3) return finer;
	return few(Math.exp(least), Math.exp(most), about).filter(s => s > 0).map(s => [Math.log(s), duration(s)]);
}

/** The first index at which ascending numbers exceed x. */
function above(rising, x) {
	let low = 0, high = rising.length;
	while (low < high) {
		const mid = (low + high) >> 1;
		if (rising[mid] > x) high = mid; else low = mid + 1;
	}
	return low;
}
