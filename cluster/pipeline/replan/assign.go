package replan

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/spread"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// slot is a place in a pipeline of the next plan.
type slot struct {
	target int // index in the list of pipelines
	place  int // the template's node
	origin int // the pipeline's number in the previous plan; -1 for a new one
	needs  runs
}

// survivor is a node that the next plan can use.
type survivor struct {
	node   cluster.NodeID
	origin int // the pipeline that it was in; -1 for none
	place  int
	holds  runs
}

// assignNodes returns a plan with pipelines of given sizes, for which the fewest bytes are sent. It
// has no batch yet. origins are the pipelines' numbers in the previous plan; -1 for a new one.
func assignNodes(plan *pipeline.Plan, nodes []survivor, live []*target) (next *pipeline.Plan, origins []int) {
	slots := slotsOf(plan, live)
	on, spare := assign(plan.Profile, slots, nodes)
	if len(plan.Machines) > 0 {
		on, spare = onMachines(plan, slots, append(on, spare...))
	}
	pipelines := make([]pipeline.Pipeline, len(live))
	members, next0 := make([][]survivor, len(live)), 0
	for i, t := range live {
		members[i] = on[next0 : next0+t.size]
		next0 += t.size
		pipelines[i] = pipeline.Pipeline{Template: t.size}
		for _, each := range members[i] {
			pipelines[i].Nodes = append(pipelines[i].Nodes, each.node)
		}
	}
	origins = matchOrigins(members, len(plan.Pipelines))
	next = &pipeline.Plan{Profile: plan.Profile, Spec: plan.Spec, Templates: plan.Templates}
	for _, i := range byOrigin(origins) {
		next.Pipelines = append(next.Pipelines, pipelines[i])
	}
	slices.SortStableFunc(origins, compareOrigins)
	for _, each := range spare {
		next.Spare = append(next.Spare, each.node)
	}
	slices.Sort(next.Spare)
	next.Machines = plan.Machines.Among(next.Nodes())
	return next, origins
}

// onMachines exchanges nodes so that each layer is on as many machines as the faults require, with
// few bytes more. The nodes are those of the slots, then the spare ones.
func onMachines(plan *pipeline.Plan, slots []slot, nodes []survivor) (on, spare []survivor) {
	a := &spread.Assignment{
		Layers: plan.Profile.Len(),
		Bytes:  func(place, node int) int64 { return cost(plan.Profile, slots[place].needs, nodes[node].holds) },
	}
	for _, each := range slots {
		a.Needs = append(a.Needs, each.needs)
	}
	var numbers []cluster.NodeID
	for _, each := range nodes {
		numbers = append(numbers, each.node)
	}
	a.Machines = plan.Machines.Of(numbers)
	a.Want = plan.Machines.Want(plan.Spec.Faults, numbers)
	order, _ := a.Improve()
	all := make([]survivor, len(order))
	for i, node := range order {
		all[i] = nodes[node]
	}
	return all[:len(slots)], all[len(slots):]
}

// slotsOf returns the places of all pipelines, in order.
func slotsOf(plan *pipeline.Plan, live []*target) (slots []slot) {
	for i, t := range live {
		template := plan.Template(t.size)
		for place := range t.size {
			slots = append(slots, slot{i, place, t.origin, template.NodeLayers(place)})
		}
	}
	return slots
}

// survivors returns the nodes that the next plan can use, sorted.
func survivors(plan *pipeline.Plan, c *Change) (all []survivor) {
	for i, each := range plan.Pipelines {
		template := plan.Template(each.Template)
		for place, node := range each.Nodes {
			if !c.gone(node) {
				all = append(all, survivor{node, i, place, template.NodeLayers(place)})
			}
		}
	}
	for _, node := range slices.Concat(plan.Spare, c.Joined) {
		if !c.gone(node) {
			all = append(all, survivor{node: node, origin: -1})
		}
	}
	slices.SortFunc(all, func(a, b survivor) int { return cmp.Compare(a.node, b.node) })
	return all
}

// assign assigns nodes to slots so that as few bytes as possible are sent; there are at least as
// many nodes as slots. It returns the node of each slot, and the remaining nodes.
//
// A node that holds exactly what a slot needs keeps such a slot in some optimal assignment:
// whatever else it would be sent can be sent to the other node instead. So these are matched first:
// nodes that can stay where they are, then others. The rest is a transportation problem between
// slots with equal needs and nodes with equal layers.
func assign(p *pipeline.Profile, slots []slot, nodes []survivor) (on, spare []survivor) {
	a := &assignment{slots: slots, nodes: nodes, on: make([]int, len(slots)), used: make([]bool, len(nodes))}
	for i := range a.on {
		a.on[i] = -1
	}
	a.match(func(s slot, n survivor) bool { return s.origin == n.origin && s.place == n.place })
	a.match(func(s slot, n survivor) bool { return s.origin == n.origin })
	a.match(func(slot, survivor) bool { return true })
	a.transport(p)
	for _, node := range a.on {
		on = append(on, nodes[node])
	}
	for i, node := range nodes {
		if !a.used[i] {
			spare = append(spare, node)
		}
	}
	return on, spare
}

// assignment is an assignment of nodes to slots that is not complete yet.
type assignment struct {
	slots []slot
	nodes []survivor
	on    []int // the index of each slot's node; -1 for none yet
	used  []bool
}

// take assigns a node to a slot.
func (a *assignment) take(slot, node int) { a.on[slot], a.used[node] = node, true }

// match assigns nodes to open slots that need exactly what they hold, if they suit.
func (a *assignment) match(suits func(slot, survivor) bool) {
	byLayers := map[string][]int{}
	for i, node := range a.nodes {
		if !a.used[i] && node.origin >= 0 {
			byLayers[node.holds.key()] = append(byLayers[node.holds.key()], i)
		}
	}
	for i, s := range a.slots {
		if a.on[i] >= 0 {
			continue
		}
		same := byLayers[s.needs.key()]
		if k := slices.IndexFunc(same, func(n int) bool { return suits(s, a.nodes[n]) }); k >= 0 {
			a.take(i, same[k])
			byLayers[s.needs.key()] = slices.Delete(same, k, k+1)
		}
	}
}

// transport assigns nodes to all open slots with the fewest bytes.
func (a *assignment) transport(p *pipeline.Profile) {
	rows := classes(len(a.slots), func(i int) (runs, bool) { return a.slots[i].needs, a.on[i] < 0 })
	columns := classes(len(a.nodes), func(i int) (runs, bool) { return a.nodes[i].holds, !a.used[i] })
	costs := make([][]int64, len(rows))
	for i, row := range rows {
		costs[i] = make([]int64, len(columns))
		for k, column := range columns {
			costs[i][k] = cost(p, row.layers, column.layers)
		}
	}
	for i, flows := range cheapest(costs, sizes(rows), sizes(columns)) {
		for _, slot := range rows[i].members {
			a.take(slot, a.pick(a.slots[slot], flows, columns))
		}
	}
}

// pick removes a node from the classes that have one for a slot: a node of the slot's own pipeline,
// if there is one.
func (a *assignment) pick(s slot, flows []int, columns []class) (node int) {
	from, at := -1, -1
	for k, flow := range flows {
		if flow == 0 {
			continue
		}
		own := slices.IndexFunc(columns[k].members, func(n int) bool { return a.nodes[n].origin == s.origin })
		if from < 0 || own >= 0 {
			from, at = k, max(own, 0)
		}
		if own >= 0 {
			break
		}
	}
	flows[from]--
	node = columns[from].members[at]
	columns[from].members = slices.Delete(columns[from].members, at, at+1)
	return node
}

// class is a set of slots or nodes with the same layers.
type class struct {
	layers  runs
	members []int
}

// classes groups n things by layers; layers returns those of one, and whether it counts.
func classes(n int, layers func(int) (runs, bool)) (all []class) {
	index := map[string]int{}
	for i := range n {
		of, ok := layers(i)
		if !ok {
			continue
		}
		at, known := index[of.key()]
		if !known {
			at = len(all)
			index[of.key()] = at
			all = append(all, class{layers: of})
		}
		all[at].members = append(all[at].members, i)
	}
	return all
}

// sizes returns how many members classes have.
func sizes(of []class) (numbers []int) {
	for _, each := range of {
		numbers = append(numbers, len(each.members))
	}
	return numbers
}
