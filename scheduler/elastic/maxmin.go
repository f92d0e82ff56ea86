package elastic

// group are jobs that are alike: each of them gets the same.
type group struct {
	jobs float64
	gpus float64   // of each job
	rate []float64 // throughput by type of GPU; 0 where a job cannot run
}

// bound is how many GPUs some groups may have on average all together.
type bound struct {
	most float64
	of   []float64 // by group, how many GPUs each of its jobs counts as; none where the bound is not for it
}

// minPrice is what counts as a price: the prices of the groups that hold a level down add up to 1.
const minPrice = 1e-7

// maxmin is Gavel's allocation (§4.1): for each group and type, the share of its time that each of
// its jobs is to run there. The least of all jobs' throughputs is as large as may be, each measured
// against what the job would have with an equal share of every type, and times its GPUs; then, with
// that kept, the next; and so on. Bounds hold for what groups have all together. The jobs that have
// a price in the solution could get more only at the expense of a job that has as little: they stay
// what they are.
func maxmin(groups []group, capacity []float64, bounds ...bound) [][]float64 {
	l := newWaterfill(groups, capacity)
	l.bounds = bounds
	var x []float64
	for l.rising > 0 {
		solution, price, ok := l.program().solve()
		if !ok {
			break // rounding: what the last level came to stands
		}
		x = solution
		l.freeze(x[len(x)-1], price)
	}
	shares := make([][]float64, len(groups))
	for g := range groups {
		shares[g] = make([]float64, len(capacity))
		for t, i := range l.variable[g] {
			if i >= 0 && x != nil {
				shares[g][t] = min(1, x[i])
			}
		}
	}
	return shares
}

// waterfill is how far the water has risen.
type waterfill struct {
	groups    []group
	capacity  []float64
	bounds    []bound
	worth     [][]float64 // throughput by type against an equal share, times GPUs
	variable  [][]int     // by group and type; -1 where a job cannot run
	variables int
	fixed     []float64 // by group; -1 as long as it rises
	rising    int       // groups that rise
}

func newWaterfill(groups []group, capacity []float64) *waterfill {
	l := &waterfill{groups: groups, capacity: capacity, fixed: make([]float64, len(groups))}
	for g, group := range groups {
		equal := 0.0
		total := 0.0
		for t, gpus := range capacity {
			equal += group.rate[t] * gpus
			total += gpus
		}
		worth, variable := make([]float64, len(capacity)), make([]int, len(capacity))
		for t := range capacity {
			variable[t] = -1
			if group.rate[t] > 0 && capacity[t] >= group.gpus {
				worth[t] = group.gpus * group.rate[t] / (equal / total)
				variable[t] = l.variables
				l.variables++
				l.fixed[g] = -1
			}
		}
		if l.fixed[g] < 0 {
			l.rising++
		}
		l.worth, l.variable = append(l.worth, worth), append(l.variable, variable)
	}
	return l
}

// program is the next level: a row for each group, then one for each group's time, then one for
// each type and each bound.
func (l *waterfill) program() *program {
	n := l.variables + 1
	p := &program{gain: make([]float64, n)}
	p.gain[n-1] = 1
	for g := range l.groups {
		row, limit := make([]float64, n), 0.0
		for t, i := range l.variable[g] {
			if i >= 0 {
				row[i] = -l.worth[g][t]
			}
		}
		if l.fixed[g] < 0 {
			row[n-1] = 1
		} else {
			limit = -l.fixed[g]
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, limit)
	}
	for g := range l.groups {
		row := make([]float64, n)
		for _, i := range l.variable[g] {
			if i >= 0 {
				row[i] = 1
			}
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, 1)
	}
	for t, gpus := range l.capacity {
		row := make([]float64, n)
		for g, group := range l.groups {
			if i := l.variable[g][t]; i >= 0 {
				row[i] = group.jobs * group.gpus / gpus
			}
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, 1)
	}
	for _, b := range l.bounds {
		row := make([]float64, n)
		for g, group := range l.groups {
			for _, i := range l.variable[g] {
				if i >= 0 {
					row[i] = group.jobs * b.of[g] / b.most
				}
			}
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, 1)
	}
	return p
}

// freeze keeps the groups that held the level down at it; all of them if rounding leaves none.
func (l *waterfill) freeze(level float64, price []float64) {
	before := l.rising
	for _, least := range []float64{minPrice, -1} {
		for g := range l.groups {
			if l.fixed[g] < 0 && price[g] > least {
				l.fixed[g] = level * (1 - eps)
				l.rising--
			}
		}
		if l.rising < before {
			return
		}
	}
}
