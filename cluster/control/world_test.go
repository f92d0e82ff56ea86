package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/mirror"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/tests/harness"
)

// world is a cluster in this process: a real etcd, a controller that leads, and agents that pretend
// to run processes.
type world struct {
	*testing.T
	objects store.Store
	config  Settings
	leader  *Leader
	stop    context.CancelFunc
	ended   chan error
	// next is what the next leader takes its records from.
	next *mirror.Mirror
}

// newWorld returns a cluster without nodes, whose controller leads. No lease of a node ends by
// itself, however long the machine stands still. From here on the test runs beside others: they
// wait more than they compute.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	objects := servertest.Store(t)
	w := &world{T: t, objects: objects, config: Settings{
		Policies: testPolicies, Placement: "best-fit", Decisions: filepath.Join(t.TempDir(), "decisions"),
		Times: Times{Lease: time.Hour, FenceAfter: 2 * time.Hour, Margin: time.Minute, Grace: time.Second},
	}}
	made := record.Cluster{ID: "c-test", Created: time.Now()}
	if _, err := objects.Put(t.Context(), store.Write{Key: record.ClusterKey, Value: made.Encode()}); err != nil {
		t.Fatal(err)
	}
	w.lead()
	t.Cleanup(func() { w.depose(); w.next.Stop() })
	return w
}

// testPolicies are first come, first served, with EASY backfilling.
func testPolicies() (scheduler.Policies, error) {
	easy, err := backfill.ByName("easy")
	return scheduler.Policies{Order: order.Priority{}, Place: place.BestFit{}, Backfill: easy}, err
}

// lead begins a leadership.
func (w *world) lead() {
	w.Helper()
	w.leadOn(w.objects)
}

// leadOn begins a leadership of a controller with a store of its own.
func (w *world) leadOn(objects store.Store) {
	w.Helper()
	leadership, err := w.objects.Campaign(w.Context(), "here")
	if err != nil {
		w.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.Output(), nil))
	leader, err := NewLeader(w.Context(), Beginning{objects, leadership, w.next}, w.config, log)
	if err != nil {
		w.Fatal(err)
	}
	if w.next != nil {
		w.next.Stop()
	}
	w.next = mirror.Follow(context.Background(), w.objects, log)
	ctx, stop := context.WithCancel(context.Background())
	w.leader, w.stop, w.ended = leader, stop, make(chan error, 1)
	go func() {
		err := leader.Run(ctx)
		resign(leadership)
		w.ended <- err
	}()
}

// depose ends the leadership.
func (w *world) depose() {
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotLeading) {
		w.Errorf("the leader ended with %v", err)
	}
}

// turn makes a turn of the leader.
func (w *world) turn(do func(l *Leader)) {
	w.Helper()
	if err := w.leader.ask(w.Context(), func() error { do(w.leader); return nil }); err != nil {
		w.Fatal(err)
	}
}

// launch submits a launch.
func (w *world) launch(spec launch.Spec) string {
	w.Helper()
	id, err := w.submit(spec, Submission{Owner: "ada", By: "ada"})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// submit submits a launch, which may be refused.
func (w *world) submit(spec launch.Spec, as Submission) (id string, err error) {
	w.Helper()
	if as.Spec, err = spec.Check(); err != nil {
		w.Fatal(err)
	}
	return id, w.leader.ask(w.Context(), func() error {
		created, err := w.leader.create(as)
		if err == nil {
			id = created[0].ID
		}
		return err
	})
}

// await waits until a launch is in a phase.
func (w *world) await(id string, phase launch.Phase) *record.Launch {
	w.Helper()
	return w.awaitLaunch(id, string(phase), func(l *record.Launch) bool { return l.State.Phase == phase })
}

// awaitEvent waits until an event of a kind has happened to a launch, though it may be over.
func (w *world) awaitEvent(id, kind string) *record.Launch {
	w.Helper()
	return w.awaitLaunch(id, kind, func(l *record.Launch) bool { return slices.Contains(kinds(l), kind) })
}

// awaitLaunch waits until something is true of a launch.
func (w *world) awaitLaunch(id, what string, is func(*record.Launch) bool) *record.Launch {
	w.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		var got *record.Launch
		w.turn(func(l *Leader) {
			if e := l.launches[id]; e != nil {
				got = e.Clone()
			}
		})
		if got != nil && is(got) {
			return got
		}
		if time.Now().After(deadline) {
			w.Fatalf("launch %s is not %s: %+v", id, what, got)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// fakeAgent pretends to run processes. It outlives leaders.
type fakeAgent struct {
	w     *world
	name  string
	boot  string
	gpus  int
	mu    sync.Mutex
	runs  map[string]*api.Report // what it has of attempts
	epoch uint64
	ever  map[string]int // how often an attempt was started
	from  map[string]*api.Image
	// fetched has where attempts were to fetch their images from.
	fetched map[string]*api.ImageSource
	saved   []string // the attempts whose images are known to be in the store
	// failing is why saves fail; empty: they do not.
	failing string
	// refuses is why nothing starts from an image; empty: it does.
	refuses string
	renewed int               // how many renewals were answered
	asked   map[string]uint32 // how many saves that were asked for an attempt has made
	old     bool              // it gives what it restores the GPUs that it had
	shares  bool              // it sends and fetches images
	cuts    fakeSaves         // how it takes part in cuts
	leader  *Leader           // that it is attached to, by session
	session *session.Session
	stop    context.CancelFunc
	alive   sync.WaitGroup
}

// join adds a node and attaches its agent.
func (w *world) join(name string, gpus int) *fakeAgent {
	w.Helper()
	w.turn(func(l *Leader) {
		if err := l.addNode(record.Node{Name: name, BootID: "boot 1", Key: "key of " + name}); err != nil {
			w.Error(err)
		}
	})
	a := &fakeAgent{
		w: w, name: name, boot: "boot 1", gpus: gpus, runs: map[string]*api.Report{}, ever: map[string]int{},
		from: map[string]*api.Image{}, fetched: map[string]*api.ImageSource{},
		asked: map[string]uint32{}, cuts: newFakeSaves(),
	}
	a.attach()
	w.Cleanup(a.detach)
	return a
}

// key names an attempt.
func key(launchID string, replica, attempt uint32) string {
	return fmt.Sprintf("%s.%d.%d", launchID, replica, attempt)
}

// attach connects the agent to the leader of now.
func (a *fakeAgent) attach() {
	a.w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	leader := a.w.leader
	hello := &api.Hello{Node: a.name, BootId: a.boot, Address: "10.0.0.1", Inventory: &api.Inventory{
		Cpus: 8, MemoryBytes: 1 << 34, ChoosesGpus: !a.old, SavesTogether: !a.old, Networks: !a.old,
	}}
	if a.shares {
		hello.Inventory.ImagesPort = 9413
	}
	for i := range a.gpus {
		hello.Inventory.Gpus = append(hello.Inventory.Gpus, &api.GPU{Index: uint32(i), Name: "Soft", MemoryBytes: 1 << 33})
	}
	a.mu.Lock()
	for _, report := range a.runs {
		hello.Held = append(hello.Held, report)
	}
	a.mu.Unlock()
	s, err := leader.Attach(ctx, a.name, "key of "+a.name, hello)
	if err != nil {
		a.w.Fatal(err)
	}
	a.alive.Go(func() { a.serve(ctx, leader, s) })
}

// detach cuts the connection.
func (a *fakeAgent) detach() {
	a.stop()
	a.alive.Wait()
}

// serve follows orders and renews the lease, until the connection is cut. It begins with all
// reports, as agents do.
func (a *fakeAgent) serve(ctx context.Context, leader *Leader, s *session.Session) {
	defer leader.Detach(a.name, s)
	a.mu.Lock()
	a.leader, a.session = leader, s
	for _, report := range a.runs {
		a.say(report)
	}
	a.mu.Unlock()
	a.alive.Go(func() { a.renew(ctx, leader, s) })
	_ = s.Serve(ctx, func(message *api.ToAgent) error { // it ends with the context or the leader
		for _, report := range a.follow(message) {
			leader.Receive(a.name, s, &api.FromAgent{Message: &api.FromAgent_Report{Report: report}})
		}
		return nil
	})
}

// renewEvery is how often a lease is renewed.
const renewEvery = 200 * time.Millisecond

// renew renews the lease, and reports again what has ended.
func (a *fakeAgent) renew(ctx context.Context, leader *Leader, s *session.Session) {
	renewals := time.NewTicker(renewEvery)
	defer renewals.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewals.C:
		}
		leader.Receive(a.name, s, &api.FromAgent{Message: &api.FromAgent_Renewal{Renewal: &api.Renewal{}}})
		a.mu.Lock()
		for _, report := range a.runs {
			if report.GetState() == "ended" {
				leader.Receive(a.name, s, &api.FromAgent{Message: &api.FromAgent_Report{Report: report}})
			}
		}
		a.mu.Unlock()
	}
}

// follow does what a message orders, and returns what there is to report.
func (a *fakeAgent) follow(message *api.ToAgent) (reports []*api.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if message.GetRenewed() != nil {
		a.renewed++
	}
	orders := message.GetOrders()
	if orders == nil {
		return nil
	}
	for _, verdict := range orders.GetVerdicts() {
		a.decide(verdict)
	}
	if orders.GetEpoch() < a.epoch {
		a.w.Errorf("%s: an order of epoch %d after %d", a.name, orders.GetEpoch(), a.epoch)
	}
	a.epoch = orders.GetEpoch()
	listed := map[string]bool{}
	for _, o := range orders.GetOrders() {
		at := o.GetAttempt()
		k := key(at.GetLaunch(), at.GetReplica(), at.GetAttempt())
		listed[k] = true
		has := a.runs[k]
		switch {
		case o.GetDo() == "run" && has == nil:
			a.ever[k]++
			a.from[k], a.fetched[k] = o.GetImage(), o.GetImageFrom()
			has = &api.Report{Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "running"}
			if a.refuses != "" && o.GetImage() != nil {
				has.State, has.Exits = "ended", []*api.Exit{{Error: a.refuses}}
			}
			a.runs[k], a.asked[k] = has, o.GetAsked()
		case o.GetTogether() && has.GetState() == "running" && o.GetDo() != "stop":
			a.takePart(k, o)
			continue
		case o.GetDo() == "run" && has.GetState() == "running" && o.GetAsked() > a.asked[k]:
			a.asked[k] = o.GetAsked()
			has = proto.CloneOf(has)
			if has.Asked, has.SaveError = o.GetAsked(), a.failing; a.failing == "" {
				has.Image, has.ImageKey = a.image(o, uint64(o.GetAsked())), []byte("key of "+a.name)
			}
			a.runs[k] = has
		case o.GetDo() == "save" && has.GetState() == "running":
			has = a.save(o, has)
			a.runs[k] = has
		case o.GetDo() != "run" && has == nil:
			has = &api.Report{Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "ended"}
			a.runs[k] = has
		case o.GetDo() != "run" && has.GetState() == "running":
			has = &api.Report{
				Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "ended",
				Exits: []*api.Exit{{Signal: 15, Stopped: true}},
			}
			a.runs[k] = has
		}
		reports = append(reports, has)
	}
	for _, copied := range orders.GetCopies().GetOrders() {
		at := copied.GetAttempt()
		reports = append(reports, &api.Report{
			Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(),
			Copied: &api.Copied{Generation: copied.GetGeneration(), Error: a.failing},
		})
	}
	for _, saved := range orders.GetSaved() {
		at := saved.GetAttempt()
		a.saved = append(a.saved, key(at.GetLaunch(), at.GetReplica(), at.GetAttempt()))
	}
	for _, at := range orders.GetReleased() {
		delete(a.runs, key(at.GetLaunch(), at.GetReplica(), at.GetAttempt()))
	}
	if orders.GetComplete() {
		for k := range a.runs {
			if !listed[k] {
				delete(a.runs, k)
			}
		}
	}
	return reports
}

// save pretends to save an attempt, and to stop it by that.
func (a *fakeAgent) save(o *api.Order, has *api.Report) *api.Report {
	at := o.GetAttempt()
	next := &api.Report{
		Launch: at.GetLaunch(), Replica: at.GetReplica(), Attempt: at.GetAttempt(), State: "running", Save: o.GetSave(),
	}
	switch {
	case o.GetSave() == has.GetSave():
		return has
	case a.failing != "":
		next.SaveError = a.failing
		return next
	}
	next.State, next.Saved, next.ImageKey = "ended", true, []byte("key of "+a.name)
	next.Image = a.image(o, uint64(o.GetAsked())+1)
	return next
}

// image describes an image of an attempt.
func (a *fakeAgent) image(o *api.Order, generation uint64) *api.Image {
	at := o.GetAttempt()
	dir := "/node/images/" + key(at.GetLaunch(), at.GetReplica(), at.GetAttempt())
	shared := o.GetCheckpoint().GetSharedDir()
	if shared != "" {
		dir = shared
	}
	return &api.Image{
		Replica: at.GetReplica(), Attempt: at.GetAttempt(), Node: a.name, Dir: dir, Generation: generation, Shared: shared != "",
		UnixMs: 1,
	}
}

// running returns the attempts that run.
func (a *fakeAgent) running() (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, report := range a.runs {
		if report.GetState() == "running" {
			list = append(list, k)
		}
	}
	return list
}

// finish ends the process of an attempt.
func (a *fakeAgent) finish(k string, code int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if report := a.runs[k]; report != nil && report.GetState() == "running" {
		a.runs[k] = &api.Report{
			Launch: report.GetLaunch(), Replica: report.GetReplica(), Attempt: report.GetAttempt(), State: "ended",
			Exits: []*api.Exit{{Code: code}},
		}
	}
}

// awaitRunning waits until a number of attempts run on a node.
func (a *fakeAgent) awaitRunning(count int) []string {
	a.w.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		if list := a.running(); len(list) == count {
			return list
		}
		if time.Now().After(deadline) {
			a.w.Fatalf("%s runs %v, want %d attempts", a.name, a.running(), count)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// simple returns a launch of some replicas with some GPUs each.
func simple(replicas, gpus int) launch.Spec {
	return launch.Spec{Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: replicas, Max: replicas},
		Processes: []launch.Process{{Command: []string{"true"}, Resources: launch.Resources{GPUs: gpus}}},
	}}}
}
