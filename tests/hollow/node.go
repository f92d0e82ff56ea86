package hollow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/link"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// gpuBytes is the memory of each GPU.
const gpuBytes = 80 << 30

// Node is a hollow node. It implements link.Host.
type Node struct {
	Name  string
	fleet *Fleet
	gpus  int

	mu     sync.Mutex
	epoch  uint64
	held   map[string]*held
	report func(*api.Report)
	// users are the attempts that have GPUs, and freed is when a GPU's last user was ended.
	users map[uint32]*held
	freed map[uint32]time.Time
}

var _ link.Host = (*Node)(nil)

// held is what a node has of an attempt.
type held struct {
	node *Node
	last *api.Report
	gpus []uint32
}

// newNode returns a node without attempts.
func newNode(f *Fleet, name string, gpus int) *Node {
	return &Node{
		Name: name, fleet: f, gpus: gpus, held: map[string]*held{}, users: map[uint32]*held{}, freed: map[uint32]time.Time{},
	}
}

// Hello implements link.Host.
func (n *Node) Hello(ctx context.Context) *api.Hello {
	hello := &api.Hello{Node: n.Name, BootId: bootID, Version: "hollow", Address: "127.0.0.1", Inventory: n.Inventory(ctx)}
	n.mu.Lock()
	defer n.mu.Unlock()
	hello.Epoch = n.epoch
	for _, each := range n.held {
		hello.Held = append(hello.Held, each.last)
	}
	return hello
}

// Inventory implements link.Host.
func (n *Node) Inventory(context.Context) *api.Inventory {
	i := &api.Inventory{Cpus: 128, MemoryBytes: 1 << 40, Os: "hollow", Kernel: "hollow", PhosdVersion: "hollow"}
	for index := range n.gpus {
		i.Gpus = append(i.Gpus, &api.GPU{
			Index: uint32(index), Name: "Hollow", Uuid: fmt.Sprintf("GPU-%s-%d", n.Name, index), MemoryBytes: gpuBytes,
		})
	}
	return i
}

// ReportTo implements link.Host.
func (n *Node) ReportTo(report func(*api.Report)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report = report
	for _, each := range n.held { // what has changed since Hello
		report(each.last)
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.report = nil
	}
}

// Renewed implements link.Host.
func (n *Node) Renewed(context.Context, time.Duration) { n.fleet.renewals.Add(1) }

// Answer implements link.Host.
func (n *Node) Answer(context.Context, *api.Ask, func(*api.AnswerPart) error) error {
	return errors.New("a hollow node has no logs")
}

// Exec implements link.Host: no test asks a hollow node for a command, and none would be answered.
func (n *Node) Exec(context.Context, api.AgentsClient, *api.Ask) {}

// Attached implements link.Host: there are no logs to send.
func (n *Node) Attached(context.Context, api.AgentsClient) {}

// Follow implements link.Host.
func (n *Node) Follow(_ context.Context, _ api.AgentsClient, orders *api.Orders) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if orders.GetEpoch() < n.epoch {
		return fmt.Errorf("an order of epoch %d after %d", orders.GetEpoch(), n.epoch)
	}
	n.epoch = orders.GetEpoch()
	listed := map[string]bool{}
	for _, order := range orders.GetOrders() {
		name := attemptName(order.GetAttempt())
		listed[name] = true
		n.do(name, order)
	}
	for _, released := range orders.GetReleased() {
		n.release(attemptName(released))
	}
	for name := range n.held {
		if orders.GetComplete() && !listed[name] {
			n.release(name)
		}
	}
	return nil
}

// attemptName names an attempt.
func attemptName(a *api.Attempt) string {
	return fmt.Sprintf("%s.%d.%d", a.GetLaunch(), a.GetReplica(), a.GetAttempt())
}

// do makes one order true.
func (n *Node) do(name string, order *api.Order) {
	has := n.held[name]
	switch {
	case has == nil && order.GetDo() == string(launch.Run):
		n.start(name, order)
	case has == nil:
		at := order.GetAttempt()
		has = &held{node: n, last: &api.Report{
			Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "ended", Unstarted: true,
		}}
		n.held[name] = has
		n.say(has.last)
	case order.GetDo() == string(launch.Stop) && has.last.GetState() == "running":
		n.end(has, &api.Exit{Signal: 15, Stopped: true})
	}
}

// start notes that an attempt runs.
func (n *Node) start(name string, order *api.Order) {
	now := time.Now()
	at := order.GetAttempt()
	t := &held{node: n, gpus: order.GetGpus(), last: &api.Report{
		Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "running", StartedUnixMs: now.UnixMilli(),
	}}
	n.held[name] = t
	for _, gpu := range t.gpus {
		if user := n.users[gpu]; user != nil {
			n.fleet.fault("GPU %d of %s is given to %s while %s has it", gpu, n.Name, name, user.last.GetLaunch())
		}
		n.users[gpu] = t
		if since, known := n.freed[gpu]; known {
			delete(n.freed, gpu)
			n.fleet.reused(now.Sub(since))
		}
	}
	n.fleet.started(name, t, n.epoch)
	n.say(t.last)
}

// end notes that an attempt has ended, and reports it.
func (n *Node) end(t *held, exit *api.Exit) {
	now := time.Now()
	t.last = &api.Report{
		Launch: t.last.GetLaunch(), Replica: t.last.GetReplica(), Attempt: t.last.GetAttempt(), State: "ended",
		StartedUnixMs: t.last.GetStartedUnixMs(), EndedUnixMs: now.UnixMilli(), Exits: []*api.Exit{exit},
	}
	for _, gpu := range t.gpus {
		delete(n.users, gpu)
		n.freed[gpu] = now
	}
	n.say(t.last)
}

// release forgets an attempt. One that runs is ended.
func (n *Node) release(name string) {
	t := n.held[name]
	if t == nil {
		return
	}
	delete(n.held, name)
	for _, gpu := range t.gpus {
		if n.users[gpu] == t {
			delete(n.users, gpu)
		}
	}
}

// say sends a report, if there is a stream.
func (n *Node) say(r *api.Report) {
	if n.report != nil {
		n.report(r)
	}
}
