package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/images"
	"github.com/phos-gpu/phos/cluster/agent/link"
	"github.com/phos-gpu/phos/cluster/agent/localapi"
	"github.com/phos-gpu/phos/cluster/agent/overlay"
	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/metrics"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Config is how an agent is set up.
type Config struct {
	// Node is the node's name, Address what other nodes reach it by.
	Node, Address string
	// StateDir keeps what must outlive the agent.
	StateDir string
	link.Contact
	// Phosd is the socket of phosd. Environment are the variables that put phos in place of the
	// driver.
	Phosd       string
	Environment []string
	// Images is the address where other nodes fetch images of launches; empty: nowhere. Peers is what
	// this node shows to them.
	Images string
	Peers  channel.Source
	// Socket is where the processes of launches ask the agent about their launch; empty: nowhere.
	Socket string
	// AllowRoot lets launches run as root.
	AllowRoot bool
	Version   string
}

// Agent is the agent of a node.
type Agent struct {
	config   Config
	boot     string
	attempts *attempts
	code     *codeCache
	// generations are those of the node's launches.
	generations *localapi.Generations
	trainings   *localapi.Trainings
	program     *trunk.Program
	// cgroups is the cgroup in which those of attempts are.
	cgroups string
	// networks are those of launches that have their own.
	networks *overlay.Node
	// copier fetches images that the node keeps for others.
	copier *images.Copier
	// turn has a value while an attempt is being saved: one at a time.
	turn chan struct{}
	// sent has the keys of attempts whose logs the leader has up to their ends, or does not want.
	sent sync.Map

	mu       sync.Mutex
	images   int              // the port where images are served; 0: none are
	deadline time.Duration    // what supervisors of new attempts start with
	gpus     []*api.GPU       // as phosd has said last
	together bool             // whether that phosd saves parts of cuts
	renewed  time.Time        // when the lease was renewed last
	leader   api.AgentsClient // nil: none leads the node
}

// New returns the agent of a node, with what an earlier one has left.
func New(ctx context.Context, config Config) (*Agent, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		config: config, boot: boot, cgroups: "phos-launches", turn: make(chan struct{}, 1),
		generations: localapi.NewGenerations(), trainings: localapi.NewTrainings(),
		networks: &overlay.Node{Address: config.Address},
	}
	if err := a.networks.Sweep(); err != nil {
		config.Log.Warn("networks of launches stay", "error", err)
	}
	for _, dir := range []string{a.path("attempts"), a.path("work"), a.path("images")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("state of the agent: %w", err)
		}
	}
	code, err := codestore.NewStore(a.path("code"))
	if err != nil {
		return nil, err
	}
	a.code, a.program = &codeCache{Store: code}, &trunk.Program{Path: a.path("trunk")}
	a.attempts, a.copier = newAttempts(a), images.NewCopier(a.copyImage, a.tellCopied)
	return a, a.attempts.adopt(ctx)
}

// path returns a path in the agent's state directory.
func (a *Agent) path(names ...string) string {
	return filepath.Join(append([]string{a.config.StateDir}, names...)...)
}

// Run serves the cluster until the context ends. Processes go on.
func (a *Agent) Run(ctx context.Context) error {
	go a.attempts.retain(ctx)
	if a.config.Socket != "" {
		server, err := localapi.Listen(a.config.Socket, a, a.config.Log)
		if err != nil {
			return err
		}
		served := make(chan struct{})
		go func() { defer close(served); server.Serve(ctx) }()
		defer func() { <-served }() // it removes the socket
	}
	defer a.serveImages(ctx)()
	return link.New(a.config.Contact, a).Run(ctx)
}

// serveImages lets other nodes fetch images until the context ends. The function that it returns
// waits for that. Without a listener this node keeps its images, and fetches none.
func (a *Agent) serveImages(ctx context.Context) (wait func()) {
	if a.config.Images == "" {
		return func() {}
	}
	server, err := images.Listen(a.config.Images, a.config.Peers, a, a.config.Log)
	if err != nil {
		a.config.Log.Warn("launches cannot go on on other nodes, except by a shared directory", "error", err)
		return func() {}
	}
	a.mu.Lock()
	a.images = server.Port()
	a.mu.Unlock()
	var served sync.WaitGroup
	served.Go(func() {
		server.Serve(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.images = 0
	})
	served.Go(func() { a.copier.Run(ctx) })
	return served.Wait
}

// Hello implements link.Host.
func (a *Agent) Hello(ctx context.Context) *api.Hello {
	return &api.Hello{
		Node: a.config.Node, BootId: a.boot, Version: a.config.Version, Address: a.config.Address,
		Inventory: a.Inventory(ctx), Held: a.attempts.reports(), Epoch: a.attempts.highestEpoch(),
	}
}

// Follow implements link.Host.
func (a *Agent) Follow(ctx context.Context, client api.AgentsClient, orders *api.Orders) error {
	return a.attempts.follow(ctx, client, orders)
}

// ReportTo implements link.Host.
func (a *Agent) ReportTo(report func(*api.Report)) (stop func()) { return a.attempts.reportTo(report) }

// Renewed implements link.Host: it extends the deadlines of what runs here.
func (a *Agent) Renewed(ctx context.Context, deadline time.Duration) {
	a.noteRenewal()
	a.setDeadline(deadline)
	a.attempts.extend(ctx, deadline)
}

// setDeadline notes until when what runs here may run.
func (a *Agent) setDeadline(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = max(a.deadline, at)
}

// newDeadline returns the deadline of a new attempt.
func (a *Agent) newDeadline() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.deadline
}

// Numbers returns what the agent knows of itself, for Prometheus.
func (a *Agent) Numbers() metrics.AgentState {
	state := metrics.AgentState{
		Epoch: a.attempts.highestEpoch(), CertificateEnds: a.config.Certificate.Ends(), Attempts: map[string]int{},
		Attached: a.attempts.isReporting(),
	}
	for _, report := range a.attempts.reports() {
		state.Attempts[report.GetState()]++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state.Renewed = a.renewed
	return state
}

// noteRenewal notes that the lease was renewed now.
func (a *Agent) noteRenewal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.renewed = time.Now()
}

// Attached implements link.Host: the ends of logs are sent, and programs may ask about their
// launches.
func (a *Agent) Attached(ctx context.Context, client api.AgentsClient) {
	a.replaceLeader(nil, client)
	context.AfterFunc(ctx, func() { a.replaceLeader(client, nil) })
	go a.sendEnds(ctx, client)
}

// replaceLeader sets the client for questions to the leader, if the present one is still was, or if
// was is nil.
func (a *Agent) replaceLeader(was, client api.AgentsClient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was == nil || a.leader == was {
		a.leader = client
	}
}

// errNoLeader is what programs are told while no controller leads the node.
var errNoLeader = errors.New("no controller leads this node now: ask again")

// leading returns the client for questions to the leader.
func (a *Agent) leading() (api.AgentsClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leader == nil {
		return nil, errNoLeader
	}
	return a.leader, nil
}

// Members implements localapi.Launches.
func (a *Agent) Members(ctx context.Context, id string) (*api.MembersReply, error) {
	leader, err := a.leading()
	if err != nil {
		return nil, err
	}
	reply, err := leader.Members(ctx, &api.MembersRequest{Launch: id})
	return reply, api.FromStatus(err)
}

// Await implements localapi.Launches.
func (a *Agent) Await(ctx context.Context, id string, above uint32) {
	a.generations.Await(ctx, id, above)
}

// KeepTraining implements localapi.Launches.
func (a *Agent) KeepTraining(id string, status []byte) { a.trainings.KeepTraining(id, status) }

// ForgetTraining implements localapi.Launches.
func (a *Agent) ForgetTraining(id string) { a.trainings.ForgetTraining(id) }

// HasProcesses implements localapi.Launches.
func (a *Agent) HasProcesses(id string, uid uint32) bool {
	for _, owner := range a.attempts.owners(id) {
		if found, err := a.lookUp(owner); err == nil && found.uid == uid {
			return true
		}
	}
	return false
}
