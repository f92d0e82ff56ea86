package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

func mustAdd(t *testing.T, g *Graph, op Op, after ...*Node) *Node {
	t.Helper()
	n, err := g.Add(op, after)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGraphRefuses(t *testing.T) {
	b := newBench(t)
	g, other := b.graph(), b.graph()
	x, y := mustAdd(t, g, Empty{}), mustAdd(t, g, Empty{})
	z := mustAdd(t, other, Empty{})
	for name, do := range map[string]func() error{
		"dependency elsewhere": func() error { _, err := g.Add(Empty{}, []*Node{z}); return err },
		"dependency twice":     func() error { _, err := g.Add(Empty{}, []*Node{x, x}); return err },
		"edge elsewhere":       func() error { return g.Connect(x, z) },
		"edge to itself":       func() error { return g.Connect(x, x) },
		"missing edge":         func() error { return g.Disconnect(x, y) },
		"edge twice":           func() error { return errors.Join(g.Connect(x, y), g.Connect(x, y)) },
		"node of another":      func() error { return g.Remove(z) },
		"other type":           func() error { return x.SetOp(Host{}) },
		"unknown handle":       func() error { _, err := b.set.Node(12345); return err },
		"cycle": func() error {
			if err := g.Connect(y, x); err != nil {
				t.Fatal(err)
			}
			_, err := g.Plan()
			return err
		},
	} {
		if name == "edge twice" || name == "cycle" {
			continue // in this order below
		}
		b.want(do(), abi.InvalidValue)
	}
	b.want(g.Connect(x, y), nil)
	b.want(g.Connect(x, y), abi.InvalidValue)
	b.want(g.Connect(y, x), nil)
	_, err := g.Plan()
	b.want(err, abi.InvalidValue)
	b.want(g.Remove(x), nil)
	if len(g.Nodes()) != 1 || len(y.Dependencies()) != 0 || len(y.Dependents()) != 0 {
		t.Error("removed node still has edges")
	}
	_, err = b.set.Node(x.Handle)
	b.want(err, abi.InvalidValue)
}

func TestPlanInlinesChildren(t *testing.T) {
	b := newBench(t)
	inner := b.graph()
	i1 := mustAdd(t, inner, Host{Function: 1})
	mustAdd(t, inner, Host{Function: 2}, i1)
	mustAdd(t, inner, Host{Function: 3}, i1)
	g := b.graph()
	first := mustAdd(t, g, Host{Function: 10})
	child := mustAdd(t, g, Child{Graph: inner}, first)
	empty := mustAdd(t, g, Child{Graph: b.graph()}, child)
	last := mustAdd(t, g, Host{Function: 20}, empty)
	plan, err := g.Plan()
	b.want(err, nil)
	// reach[i] are the host functions that must have run before step i.
	reach := make([]map[uint64]bool, len(plan.Steps))
	for i, step := range plan.Steps {
		reach[i] = map[uint64]bool{}
		for _, d := range step.After {
			if d >= i {
				t.Fatalf("step %d runs after step %d", i, d)
			}
			for f := range reach[d] {
				reach[i][f] = true
			}
			if h, ok := plan.Steps[d].Op.(Host); ok {
				reach[i][h.Function] = true
			}
		}
	}
	for _, c := range []struct {
		node *Node
		want []uint64
	}{{first, nil}, {i1, []uint64{10}}, {last, []uint64{1, 2, 3, 10}}} {
		got := reach[plan.Index[c.node.Handle]]
		if len(got) != len(c.want) {
			t.Errorf("%v runs after %v, want %v", c.node.Handle, got, c.want)
		}
	}
}

// TestPlanKeepsEveryEdge checks on random graphs that every node is in the plan once and every edge
// is kept.
func TestPlanKeepsEveryEdge(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 9))
		b := newBench(t)
		g := b.graph()
		var nodes []*Node
		for range 40 {
			nodes = append(nodes, mustAdd(t, g, Empty{}))
		}
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		for range 100 {
			i, j := r.IntN(40), r.IntN(40)
			_ = g.Connect(nodes[min(i, j)], nodes[max(i, j)])
		}
		plan, err := g.Plan()
		if err != nil || len(plan.Steps) != 40 {
			t.Fatal(len(plan.Steps), err)
		}
		for _, n := range nodes {
			step := plan.Steps[plan.Index[n.Handle]]
			for _, d := range n.Dependencies() {
				if at := plan.Index[d.Handle]; !slices.Contains(step.After, at) || at >= plan.Index[n.Handle] {
					t.Fatalf("seed %d: edge %v to %v is lost", seed, d.Handle, n.Handle)
				}
			}
		}
	}
}

func TestCloneIsDeepAndFindable(t *testing.T) {
	b := newBench(t)
	inner := b.graph()
	deep := mustAdd(t, inner, Empty{})
	g := b.graph()
	x := mustAdd(t, g, Empty{})
	child := mustAdd(t, g, Child{Graph: inner}, x)
	clone := g.Clone(func() abi.Handle { b.graphs++; return abi.NewHandle(abi.KindGraph, b.graphs) })
	found, err := clone.FindInClone(deep)
	b.want(err, nil)
	if found == deep || found.Graph() == inner || found.Graph().Handle == inner.Handle {
		t.Error("the child graph is shared")
	}
	copied, err := clone.FindInClone(child)
	b.want(err, nil)
	if len(copied.Dependencies()) != 1 || copied.Dependencies()[0].Graph() != clone {
		t.Error("edges of the clone leave the clone")
	}
	_, err = clone.FindInClone(mustAdd(t, g, Empty{}))
	b.want(err, abi.InvalidValue)
	b.want(clone.Remove(copied), nil)
	if len(g.Nodes()) != 3 {
		t.Error("removing from the clone changed the original")
	}
}

func TestUpdateComparesShapes(t *testing.T) {
	make2 := func(b *bench, second Op, connected bool) *Graph {
		g := b.graph()
		x := mustAdd(b.t, g, Host{Function: 1})
		if connected {
			mustAdd(b.t, g, second, x)
		} else {
			mustAdd(b.t, g, second)
		}
		return g
	}
	b := newBench(t)
	plan, err := make2(b, Host{Function: 2}, true).Plan()
	b.want(err, nil)
	longer := make2(b, Host{}, true)
	mustAdd(t, longer, Empty{})
	for _, c := range []struct {
		name string
		g    *Graph
		want UpdateResult
	}{
		{"same shape", make2(b, Host{Function: 9}, true), UpdateSuccess},
		{"an edge less", make2(b, Host{Function: 9}, false), UpdateTopologyChanged},
		{"another type", make2(b, Empty{}, true), UpdateNodeTypeChanged},
		{"a node more", longer, UpdateTopologyChanged},
	} {
		ops, miss := plan.Match(c.g)
		if c.want == UpdateSuccess {
			if miss != nil || len(ops) != 2 || ops[1] != (Host{Function: 9}) {
				t.Errorf("%s: %v, %v", c.name, ops, miss)
			}
		} else if miss == nil || miss.Result != c.want {
			t.Errorf("%s: %v", c.name, miss)
		}
	}
}

func TestDot(t *testing.T) {
	b := newBench(t)
	g := b.graph()
	x := mustAdd(t, g, Kernel{})
	mustAdd(t, g, Empty{}, x)
	got := g.Dot(func(op Op) string {
		if op.Type() == TypeKernel {
			return `add"`
		}
		return ""
	})
	for _, want := range []string{"digraph", `n1 [label="kernel add\""]`, `n2 [label="empty"]`, "n1 -> n2"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
