package serve

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/tests/harness"
)

// world is a controller that leads over a real etcd, and answers on a socket.
type world struct {
	*testing.T
	controller *control.Controller
	leader     *control.Leader
	code       *code.Copies
	others     []string // the other controllers
	conn       *grpc.ClientConn

	mu    sync.Mutex
	known []string // where controllers are, for agents; guarded by mu
}

// know sets where agents are told that controllers are.
func (w *world) know(addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = addresses
}

// The callers of tests. A request names one of them.
var callers = map[string]identity.Caller{
	"ada":    {Kind: identity.User, Name: "ada", Account: "ada", Role: identity.RoleUser},
	"bob":    {Kind: identity.User, Name: "bob", Account: "bob", Role: identity.RoleUser},
	"root":   {Kind: identity.User, Name: "root", Account: "ops", Role: identity.RoleAdmin},
	"viewer": {Kind: identity.User, Name: "viewer", Role: identity.RoleViewer},
	"peer":   {Kind: identity.Controller, Name: "peer"},
	"n1":     {Kind: identity.Node, Name: "n1", Key: identity.Fingerprint{1}},
	"n2":     {Kind: identity.Node, Name: "n2", Key: identity.Fingerprint{2}},
}

// byName knows the callers of tests.
type byName struct{}

// Of implements Callers.
func (byName) Of(ctx context.Context) (identity.Caller, error) {
	if name := metadata.ValueFromIncomingContext(ctx, "caller"); len(name) == 1 {
		if caller, known := callers[name[0]]; known {
			return caller, nil
		}
	}
	return identity.Caller{}, api.ErrUnknownCaller
}

// certificates are Joins that sign nothing.
type certificates struct{ Joins }

func (certificates) Bundle() []byte { return []byte("the CAs") }

func (certificates) Renew(of identity.Caller, _ []byte) *api.Issued {
	return &api.Issued{Certificate: []byte("for " + of.Name)}
}

// Controllers implements Controllers.
func (w *world) Controllers(context.Context) ([]record.Controller, error) {
	return []record.Controller{{Name: "here", Address: w.controller.Address()}}, nil
}

// Addresses implements Controllers.
func (w *world) Addresses() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// newWorld returns a controller that leads a cluster without nodes.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newFollower(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	harness.Eventually(t, "the controller leads", func() (leads bool) {
		w.leader, _ = w.controller.Leading(t.Context())
		return w.leader != nil
	})
	return w
}

// newFollower returns a controller that does not lead.
func newFollower(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	objects := newObjects(t)
	times := control.Times{Lease: time.Minute, FenceAfter: 2 * time.Minute, Margin: time.Second, Grace: time.Second}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w.controller = control.NewController(objects, control.Settings{Policies: firstCome, Placement: "best-fit", Times: times}, "here:1", log)
	w.know("here:1")
	w.code = w.newCopies()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := grpc.NewServer(ServerOptions(log)...)
	New(w.controller, Parts{Callers: byName{}, Joins: certificates{}, Code: w.code, Controllers: w}).Register(served, true)
	go func() { _ = served.Serve(listener) }() // it returns when the server is stopped
	t.Cleanup(served.Stop)
	w.conn = w.dial("unix:" + listener.Addr().String())
	return w
}

// newObjects returns a store over a new etcd.
func newObjects(t *testing.T) store.Store {
	t.Helper()
	objects := servertest.Store(t)
	made := record.Cluster{ID: "c-test", Created: time.Now()}
	if _, err := objects.Put(t.Context(), store.Write{Key: record.ClusterKey, Value: made.Encode()}); err != nil {
		t.Fatal(err)
	}
	return objects
}

// firstCome are the scheduler's policies of tests.
func firstCome() (scheduler.Policies, error) {
	return scheduler.Policies{Order: order.Priority{}, Place: place.BestFit{}}, nil
}

// newCopies returns the code of this controller, which knows w.others.
func (w *world) newCopies() *code.Copies {
	w.Helper()
	kept, err := codestore.NewStore(filepath.Join(w.TempDir(), "code"))
	if err != nil {
		w.Fatal(err)
	}
	return &code.Copies{
		Store:  kept,
		Others: func(context.Context) ([]string, error) { return w.others, nil },
		Dial:   func(address string) (*grpc.ClientConn, error) { return w.dial("unix:" + address), nil },
	}
}

// dial returns a connection that closes with the test.
func (w *world) dial(address string) *grpc.ClientConn {
	w.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as returns the context of a request of a caller.
func (w *world) as(caller string) context.Context {
	return metadata.AppendToOutgoingContext(w.Context(), "caller", caller)
}

func (w *world) launches() api.LaunchesClient { return api.NewLaunchesClient(w.conn) }

func (w *world) agents() api.AgentsClient { return api.NewAgentsClient(w.conn) }

// someSpec is a launch of one process.
func someSpec(t *testing.T) []byte {
	t.Helper()
	spec := launch.Spec{Jobs: []launch.Job{{Name: "main", Processes: []launch.Process{{Command: []string{"true"}}}}}}
	text, err := spec.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// submit creates a launch of a user, and returns its id. It waits while all nodes are cordoned.
func (w *world) submit(owner string) string {
	w.Helper()
	reply, err := w.launches().Create(w.as(owner), &api.CreateRequest{Spec: someSpec(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	return reply.GetLaunches()[0].GetId()
}

// node makes a machine a node.
func (w *world) node(name string) {
	w.Helper()
	joined := record.Node{Name: name, BootID: "boot 1", Key: callers[name].Key.String()}
	if err := w.leader.AddNode(w.Context(), joined); err != nil {
		w.Fatal(err)
	}
}

// attach opens the stream of a node's agent, and returns it once the leader has welcomed it.
func (w *world) attach(name string) (api.Agents_AttachClient, *api.Welcome) {
	w.Helper()
	stream, err := w.agents().Attach(w.as(name))
	if err != nil {
		w.Fatal(err)
	}
	hello := &api.Hello{Node: name, BootId: "boot 1", Address: "10.0.0.1", Inventory: &api.Inventory{Cpus: 8, MemoryBytes: 1 << 34}}
	if err := stream.Send(&api.FromAgent{Message: &api.FromAgent_Hello{Hello: hello}}); err != nil {
		w.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		w.Fatal(err)
	}
	return stream, first.GetWelcome()
}
