package etcd_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

func TestConfigurationsThatAreRefused(t *testing.T) {
	good := []string{"unix:///run/etcd.sock"}
	for name, config := range map[string]etcd.Config{
		"no endpoint":                {},
		"plain http":                 {Endpoints: []string{"http://127.0.0.1:2379"}},
		"an address without a port":  {Endpoints: []string{"https://controller"}},
		"an address alone":           {Endpoints: []string{"127.0.0.1:2379"}},
		"a relative socket":          {Endpoints: []string{"unix://etcd.sock"}},
		"a socket without slashes":   {Endpoints: []string{"unix:etcd.sock"}},
		"a path after the port":      {Endpoints: []string{"https://a:1/x"}},
		"two kinds":                  {Endpoints: []string{"unix:///a", "https://a:1"}},
		"no address":                 {Endpoints: []string{"\x7f"}},
		"a prefix without a slash":   {Endpoints: good, Prefix: "phos"},
		"a prefix with a slash more": {Endpoints: good, Prefix: "/phos/"},
		"a short lease":              {Endpoints: good, Lease: time.Millisecond},
		"a negative time":            {Endpoints: good, Timeout: -1},
	} {
		s, err := etcd.Open(config)
		if err == nil {
			s.Close()
			t.Errorf("%s: it was opened", name)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

// TestNoServer: an error says what is wrong with the connection, not only that time has passed.
func TestNoServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(servertest.Dir(t), "no.sock")
	s := open(t, etcd.Config{Endpoints: []string{"unix://" + socket}, Timeout: 200 * time.Millisecond})
	harness.Eventually(t, "an error names the socket", func() bool { // once a connection has been tried
		_, err := s.Put(t.Context(), store.Write{Key: "a"})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("a socket that is not there: %v", err)
		}
		return strings.Contains(err.Error(), socket)
	})
	if err := s.Snapshot(t.Context(), new(bytes.Buffer)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a snapshot of no store: %v", err)
	}
}

// TestPrefixes: clusters in one etcd see nothing of each other, even if their names begin alike.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	s := inProcess(t, servertest.Config(t))
	in := func(prefix string) *etcd.Store {
		return open(t, etcd.Config{Endpoints: []string{s.Endpoint()}, Prefix: prefix})
	}
	mine := in("/phos/a")
	leads := campaign(t, mine, "leader")
	if _, err := mine.Put(t.Context(), store.Write{Key: "k", Epoch: leads.Epoch()}); err != nil {
		t.Error(err)
	}
	for _, prefix := range []string{"/phos/b", "/phos/aa", "/phos/a2", "/a", "/phos/a/v2"} {
		other := in(prefix)
		if objects, _, err := other.List(t.Context(), ""); err != nil || len(objects) != 0 {
			t.Errorf("%s sees %v, %v", prefix, objects, err)
		}
		if _, _, err := other.Leader(t.Context()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s sees a leader: %v", prefix, err)
		}
		if _, err := other.Put(t.Context(), store.Write{Key: "k"}); err != nil {
			t.Error(err)
		}
	}
	if objects, _, err := mine.List(t.Context(), ""); err != nil || len(objects) != 1 {
		t.Errorf("there are %v, %v", objects, err)
	}
}
