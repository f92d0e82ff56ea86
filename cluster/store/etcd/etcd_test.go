package etcd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/cluster/store/storetest"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(candidateVariable); endpoint != "" {
		runCandidate(endpoint)
		return
	}
	servertest.Main(m)
}

// shortLease is the shortest that etcd counts itself with elections of a second.
const shortLease = 2 * time.Second

// open opens a store that is closed when the test ends.
func open(t testing.TB, config etcd.Config) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inProcess starts an etcd in the process of the test.
func inProcess(t testing.TB, config server.Config) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// prefixes counts the empty stores of a test.
var prefixes atomic.Int64

func TestContract(t *testing.T) {
	t.Parallel()
	s := inProcess(t, servertest.Config(t))
	socket := filepath.Join(servertest.Dir(t), "proxy.sock")
	proxy := storetest.NewProxy(t, socket, s.Endpoint()[len("unix://"):])
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	storetest.Run(t, storetest.Subject{
		Open: func(t *testing.T) func(time.Duration) store.Store {
			prefix := fmt.Sprintf("/test/%d", prefixes.Add(1))
			return func(lease time.Duration) store.Store {
				return open(t, etcd.Config{
					Endpoints: []string{"unix://" + socket}, Prefix: prefix, Lease: lease, Timeout: harness.Patience,
				})
			}
		},
		Compact: func(t *testing.T, _ store.Store, at store.Revision) {
			if _, err := raw.Compact(t.Context(), int64(at), clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
		},
		Cut:   func(*testing.T) { proxy.Cut() },
		Lease: shortLease,
	}, rounds.All())
}
