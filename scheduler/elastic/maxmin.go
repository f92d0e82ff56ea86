package elastic

import "cmp"

// group is a number of equal jobs, which get equal shares.
type group struct {
	jobs float64
	gpus float64   // of each job
	rate []float64 // throughput by GPU type; 0 if a job cannot run on it

	// weight divides the throughput of each job; 0 means 1.
	weight float64
}

// bound limits the mean number of GPUs of some groups together.
type bound struct {
	most float64
	of   []float64 // by group, how many GPUs each of its jobs counts as; 0 if the bound does not apply
}

// minPrice is the least price that counts as positive: the prices of the groups that limit a level
// add up to 1.
const minPrice = 1e-7

// maxmin is Gavel's allocation (§4.1): for each group and type, the share of time that each job
// runs there. It maximizes the least throughput of all jobs, normalized to an equal share of every
// type, multiplied by the job's GPUs and divided by its weight; then, with that kept, the next
// least, and so on. Bounds hold for the sums over groups. Jobs with a price in the solution could
// get more only at the expense of a job that has as little: they are frozen.
func maxmin(groups []group, capacity []float64, bounds ...bound) [][]float64 {
	l := newWaterfill(groups, capacity)
	l.bounds = bounds
	var x []float64
	for l.rising > 0 {
		solution, price, ok := l.program().solve()
		if !ok {
			break // rounding: the last level's result stands
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

// waterfill is the state of the progressive filling.
type waterfill struct {
	groups    []group
	capacity  []float64
	bounds    []bound
	worth     [][]float64 // throughput by type relative to an equal share, times GPUs
	variable  [][]int     // by group and type; -1 if a job cannot run there
	variables int
	fixed     []float64 // by group; -1 as long as it rises
	rising    int       // number of groups that rise
}

// newWaterfill returns the state before the first level.
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
				worth[t] = group.gpus * group.rate[t] / (equal / total) / cmp.Or(group.weight, 1)
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

// program returns the linear program of the next level: a row for each group, one for each group's
// time, and one for each type and each bound.
func (l *waterfill) program() *program {
	n := l.variables + 1
	p := &program{gain: make([]float64, n), memory: make([]float64, n*(2*len(l.groups)+len(l.capacity)+len(l.bounds)))}
	p.gain[n-1] = 1
	for g := range l.groups {
		row, limit := p.newRow(), 0.0
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
		row := p.newRow()
		for _, i := range l.variable[g] {
			if i >= 0 {
				row[i] = 1
			}
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, 1)
	}
	for t, gpus := range l.capacity {
		row := p.newRow()
		for g, group := range l.groups {
			if i := l.variable[g][t]; i >= 0 {
				row[i] = group.jobs * group.gpus / gpus
			}
		}
		p.rows, p.limit = append(p.rows, row), append(p.limit, 1)
	}
	for _, b := range l.bounds {
		row := p.newRow()
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

// freeze fixes the groups that limit the level; all of them if rounding leaves none.
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
