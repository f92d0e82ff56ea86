package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/renewal"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Config is how an agent is set up.
type Config struct {
	// Node is the node's name, Address what other nodes reach it by.
	Node, Address string
	// StateDir keeps what must outlive the agent.
	StateDir string
	// Controllers are where the controllers are reached; Dial connects to one.
	Controllers []string
	Dial        func(address string) (*grpc.ClientConn, error)
	// SaveControllers keeps other addresses of controllers for the next start.
	SaveControllers func([]string) error
	// Certificate is what the node shows to them.
	Certificate *renewal.Node
	// Phosd is the socket of phosd. Environment are the variables that put phos in place of the
	// driver.
	Phosd       string
	Environment []string
	// AllowRoot lets launches run as root.
	AllowRoot bool
	Version   string
	Log       *slog.Logger
}

// Agent is the agent of a node.
type Agent struct {
	config   Config
	boot     string
	attempts *attempts
	code     *codeCache
	// controllers is used by Run only, and what it calls.
	controllers *controllers
	// turn has a value while an attempt is being saved: one at a time.
	turn chan struct{}
	// sent has the keys of attempts whose logs the leader has up to their ends, or does not want.
	sent sync.Map

	mu       sync.Mutex
	deadline time.Duration // what supervisors of new attempts start with
	gpus     []*api.GPU    // as phosd has said last
	renewed  time.Time     // when the lease was renewed last
}

// New returns the agent of a node, with what an earlier one has left.
func New(ctx context.Context, config Config) (*Agent, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	a := &Agent{
		config: config, boot: boot, controllers: &controllers{all: config.Controllers}, turn: make(chan struct{}, 1),
	}
	for _, dir := range []string{a.path("attempts"), a.path("work"), a.path("code"), a.path("images")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("state of the agent: %w", err)
		}
	}
	a.code = &codeCache{dir: a.path("code")}
	a.attempts = newAttempts(a)
	return a, a.attempts.adopt(ctx)
}

// path returns a path in the agent's state directory.
func (a *Agent) path(names ...string) string {
	return filepath.Join(append([]string{a.config.StateDir}, names...)...)
}

// Times of connections.
const (
	retryLeast = 100 * time.Millisecond
	retryMost  = time.Second
)

// Run serves the cluster until the context ends. Processes go on.
func (a *Agent) Run(ctx context.Context) error {
	go a.attempts.retain(ctx)
	retry := retryLeast
	for ctx.Err() == nil {
		began := time.Now()
		err := a.attach(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > retryMost {
			retry = retryLeast
		}
		a.config.Log.Info("no controller leads this node", "error", err, "retry", retry)
		if errors.Is(err, api.ErrNotPermitted) {
			retry = retryMost
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, retryMost)
	}
	return ctx.Err()
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
