package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// controllerDisk is where a controller keeps what must not be lost. diskBytes is enough for that at
// first: two logs of the store of 64 MiB each, the reserve, and as much again as must be free.
// stormBytes is enough for the logs of a long test.
const (
	controllerDisk = "/var/lib/phos-controller"
	diskBytes      = 360 << 20
	stormBytes     = 1 << 30
)

// etcd returns a client of the etcd of a host's controller, as root of that host.
func (s *site) etcd(h *hosts.Host) *clientv3.Client {
	s.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"passthrough:///etcd"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return h.Dial(ctx, "unix", controllerDisk+"/etcd/etcd.sock")
		})},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// fill leaves no byte on the disk of a host's controller, also if it was full before.
func (s *site) fill(h *hosts.Host) {
	s.Helper()
	file, err := os.OpenFile(h.DiskPath(controllerDisk+"/fill"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	for piece := int64(64 << 20); piece > 0; {
		end, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			s.Fatal(err)
		}
		if unix.Fallocate(int(file.Fd()), 0, end, piece) != nil {
			piece /= 2
		}
	}
}

// free makes room on the disk again.
func (s *site) free(h *hosts.Host) {
	s.Helper()
	if err := os.Remove(h.DiskPath(controllerDisk + "/fill")); err != nil {
		s.Fatal(err)
	}
}

// exhaust writes into the store of a controller until that fails.
func (s *site) exhaust(client *clientv3.Client) {
	s.Helper()
	junk := string(bytes.Repeat([]byte("junk"), 25_000))
	for i := range 10_000 {
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
		_, err := client.Put(ctx, fmt.Sprintf("/junk/%d", i%10), junk)
		cancel()
		if err != nil {
			return
		}
	}
	s.Fatal("the store takes a gigabyte on a full disk")
}

// tryLaunch submits a launch that ends at once, and returns why it is refused.
func (s *site) tryLaunch() error {
	s.Helper()
	text, err := json.Marshal(shell("true", 1, 0))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	_, err = s.launches.Create(ctx, &api.CreateRequest{Spec: text})
	return err
}

// awaitRefusal waits until a new launch is refused with an error that names the controller's disk,
// and ends in some words.
func (s *site) awaitRefusal(end string) {
	s.Helper()
	text := ""
	defer func() { s.Logf("a new launch is refused: %s", text) }()
	harness.Eventually(s.T, "a new launch is refused because of the disk", func() bool {
		text = fmt.Sprint(s.tryLaunch())
		return strings.Contains(text, controllerDisk+" has ") && strings.HasSuffix(text, end)
	})
}

// ticking returns a launch that writes ten lines a second into a file of a shared directory.
func ticking(dir string) launch.Spec {
	return shell("while :; do echo tick >>"+dir+"/ticks; sleep 0.1; done", 1, 1)
}

// awaitTicks waits until that launch has run on for longer than it could without a controller.
func (s *site) awaitTicks(dir string) {
	s.Helper()
	count := func() int {
		text, err := os.ReadFile(filepath.Join(s.hosts[0].Shared(), filepath.Base(dir), "ticks"))
		if err != nil {
			s.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
	until := count() + 10*int(fence/time.Second)
	harness.Eventually(s.T, "the launch runs on", func() bool { return count() > until })
}

// TestFullDisk: a controller whose disk is full refuses new launches, and says why. Those that run
// do not notice, however long it lasts: its store fails for lack of room, and gets the reserve. If
// that is used up, too, all requests are refused until there is room; no operator is needed then.
func TestFullDisk(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 2, controllers: 1, gpus: 1, disk: diskBytes}, settings)
	first, dir := s.hosts[0], s.share("ticks")
	id := s.launch(ticking(dir))
	s.awaitRunning(id)
	unnoticed := func(when string) {
		t.Helper()
		if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
			t.Errorf("%s, it is in attempt %d", when, got.GetAttempt())
		}
	}

	s.fill(first)
	s.exhaust(s.etcd(first))
	s.awaitTicks(dir)
	unnoticed("with a full disk")
	s.awaitRefusal("what runs goes on")
	reserve := first.DiskPath(controllerDisk + "/reserve")
	if _, err := os.Stat(reserve); !os.IsNotExist(err) {
		t.Errorf("the reserve is still there: %v", err)
	}

	s.fill(first)
	s.exhaust(s.etcd(first))
	s.awaitRefusal("there") // of a controller whose store has failed
	s.free(first)
	s.awaitNodes(2)
	unnoticed("after that")
	s.stop(id)
	if got := s.await(s.launch(shell("true", 2, 1)), "ended"); got.GetResult() != "completed" {
		t.Errorf("a launch after that is %s: %s", got.GetResult(), got.GetReason())
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("there is no reserve for the next time: %v", err)
	}
}

// TestFullDiskOfLeader: of three controllers, the one that leads gives way to another one when its
// disk is full. New launches are taken, and the one with the full disk comes back by itself.
func TestFullDiskOfLeader(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 3, controllers: 3, gpus: 1, disk: diskBytes}, settings)
	dir := s.share("ticks")
	id := s.launch(ticking(dir))
	s.awaitRunning(id)
	full := s.leader()
	s.fill(s.hosts[full])
	harness.Eventually(t, "another controller leads", func() bool { return s.leader() != full })
	if got := s.await(s.launch(shell("true", 3, 0)), "ended"); got.GetResult() != "completed" {
		t.Errorf("a launch is %s: %s", got.GetResult(), got.GetReason())
	}
	s.awaitTicks(dir)
	if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
		t.Errorf("it is in attempt %d", got.GetAttempt())
	}
	s.free(s.hosts[full])
	for leader := s.leader(); leader != full; { // leaders are killed until it is its turn
		s.controllers[leader].Kill()
		next := s.leader()
		s.controllers[leader].Start()
		leader = next
	}
	s.stop(id)
}

// TestFullStore: a store that has reached its limit takes no launches, and says why; what runs does
// not notice, though the leader may wait to write a record of another launch. When objects are
// removed, the store takes launches again by itself.
func TestFullStore(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 1, controllers: 1, gpus: 1}, settings+"[store]\nquota_mib = 8\n")
	dir := s.share("ticks")
	id := s.launch(ticking(dir))
	s.awaitRunning(id)
	client, junk := s.etcd(s.hosts[0]), strings.Repeat("junk", 25_000)
	harness.Eventually(t, "a new launch is refused because of the store", func() bool {
		for i := range 100 { // until nothing can be reclaimed either
			if _, err := client.Put(t.Context(), fmt.Sprintf("/junk/%d", i), junk); err != nil {
				break
			}
		}
		return strings.Contains(fmt.Sprint(s.tryLaunch()), "store.quota_mib = 8")
	})
	s.awaitTicks(dir)
	if _, err := client.Delete(t.Context(), "/junk/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if got := s.awaitRunning(id).GetReplicas()[0]; got.GetAttempt() != 1 {
		t.Errorf("it is in attempt %d", got.GetAttempt())
	}
	s.stop(id)
	harness.Eventually(t, "a launch is taken", func() bool { return s.tryLaunch() == nil })
}
