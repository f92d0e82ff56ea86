package control

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// chaos is a cluster to which random things happen.
type chaos struct {
	*world
	random *rand.Rand
	agents []*fakeAgent
	cut    map[*fakeAgent]bool
	ids    []string
}

// TestChaos: whatever happens to leaders and nodes, no GPU has two owners, no attempt is started
// twice, what starts together is whole, and every launch ends.
func TestChaos(t *testing.T) {
	for seed := range uint64(rounds.Of(2, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &chaos{world: newHastyWorld(t), random: rand.New(rand.NewPCG(seed, 7)), cut: map[*fakeAgent]bool{}}
			for _, name := range []string{"a", "b", "c"} {
				c.agents = append(c.agents, c.join(name, 2))
			}
			for range 120 {
				c.step()
				c.check()
			}
			c.settle()
		})
	}
}

// newHastyWorld returns a cluster whose nodes are soon given up.
func newHastyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.depose()
	w.config.Times = Times{Lease: time.Second, FenceAfter: 2 * time.Second, Margin: 100 * time.Millisecond, Grace: time.Second}
	w.lead()
	return w
}

// step lets one thing happen.
func (c *chaos) step() {
	a := c.agents[c.random.IntN(len(c.agents))]
	switch c.random.IntN(15) {
	case 12, 13:
		c.act(func(by string) launch.Event { return launch.ResumeRequested{By: by} })
	case 14:
		if c.random.IntN(4) == 0 {
			a.mu.Lock()
			a.failing = []string{"", "disk full"}[c.random.IntN(2)]
			a.mu.Unlock()
		}
		c.act(func(by string) launch.Event { return launch.SuspendRequested{By: by} })
	case 0, 1, 2:
		spec := simple(1+c.random.IntN(3), c.random.IntN(2))
		spec.Jobs[0].Retries = c.random.IntN(2)
		spec.Priority = c.random.IntN(3)
		if c.random.IntN(3) == 0 {
			spec.Jobs[0].Replicas.Max++
		}
		if c.random.IntN(4) == 0 {
			spec.Jobs[0].OnReplicaFailure = launch.KeepOthers
		}
		c.ids = append(c.ids, c.launch(spec))
	case 3, 4, 5, 6:
		if running := a.running(); len(running) > 0 {
			slices.Sort(running)
			a.finish(running[c.random.IntN(len(running))], int32(c.random.IntN(4)/3))
		}
	case 7:
		if !c.cut[a] {
			a.detach()
			c.cut[a] = true
		}
	case 8:
		c.heal(a)
	case 9:
		c.takeOver()
	case 10:
		c.reboot(a)
	case 11:
		if len(c.ids) > 0 {
			id := c.ids[c.random.IntN(len(c.ids))]
			c.turn(func(l *Leader) { _ = l.apply(l.launches[id], launch.StopRequested{By: "ada"}) })
		}
	}
	time.Sleep(time.Duration(c.random.IntN(20)) * time.Millisecond)
}

// act has a user ask for something of a random launch. It may be refused.
func (c *chaos) act(event func(by string) launch.Event) {
	if len(c.ids) > 0 {
		id := c.ids[c.random.IntN(len(c.ids))]
		c.turn(func(l *Leader) { _ = Turn{l}.Act(&l.launches[id].Launch, event("ada")) })
	}
}

// heal connects an agent again.
func (c *chaos) heal(a *fakeAgent) {
	if c.cut[a] {
		a.attach()
		c.cut[a] = false
	}
}

// takeOver replaces the leader.
func (c *chaos) takeOver() {
	c.depose()
	for _, a := range c.agents {
		if !c.cut[a] {
			a.detach()
		}
	}
	c.lead()
	for _, a := range c.agents {
		if !c.cut[a] {
			a.attach()
		}
	}
}

// reboot loses all processes of a node.
func (c *chaos) reboot(a *fakeAgent) {
	if !c.cut[a] {
		a.detach()
	}
	a.mu.Lock()
	clear(a.runs)
	a.boot += "'"
	a.mu.Unlock()
	c.cut[a] = true
	c.heal(a)
}

// check looks at what must always hold.
func (c *chaos) check() {
	c.turn(func(l *Leader) {
		owner := map[string]string{}
		for _, e := range l.launches {
			live := 0
			for i := range e.State.Replicas {
				r := &e.State.Replicas[i]
				if !r.Live {
					continue
				}
				live++
				for _, gpu := range r.GPUs {
					k := fmt.Sprintf("%s GPU %d", r.Node, gpu)
					if owner[k] != "" {
						c.Errorf("%s belongs to %s and %s", k, owner[k], e.ID)
					}
					owner[k] = e.ID
				}
			}
			if e.State.Phase == launch.Ended && live > 0 {
				c.Errorf("launch %s has ended with %d live replicas", e.ID, live)
			}
		}
	})
	for _, a := range c.agents {
		a.mu.Lock()
		for k, count := range a.ever {
			if count > 1 {
				c.Errorf("%s has started %s %d times", a.name, k, count)
			}
		}
		a.mu.Unlock()
	}
}

// settle lets everything run to its end, and looks at what is left.
func (c *chaos) settle() {
	for _, a := range c.agents {
		c.heal(a)
	}
	deadline := time.Now().Add(harness.Patience)
	for _, id := range c.ids {
		for {
			var phase launch.Phase
			var text string
			c.turn(func(l *Leader) {
				e := l.launches[id]
				_ = l.apply(e, launch.ResumeRequested{By: "ada"}) // refused unless it is suspended
				phase, text = e.State.Phase, fmt.Sprintf("%+v %v parts %d", e.State.Phase, e.State.Replicas, len(e.parts))
			})
			if phase == launch.Ended {
				break
			}
			if time.Now().After(deadline) {
				c.Fatalf("launch %s does not end: %s", id, text)
			}
			for _, a := range c.agents {
				for _, k := range a.running() {
					a.finish(k, 0)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, a := range c.agents {
		a.awaitNothing()
	}
	c.turn(func(l *Leader) {
		for _, q := range l.queues {
			if len(q.parts) > 0 {
				c.Errorf("the scheduler still has %d jobs", len(q.parts))
			}
		}
	})
}

// awaitNothing waits until an agent has nothing left of any attempt.
func (a *fakeAgent) awaitNothing() {
	a.w.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		a.mu.Lock()
		left := len(a.runs)
		a.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			a.w.Fatalf("%s still has %d attempts", a.name, left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
