package server_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

func TestMain(m *testing.M) { servertest.Main(m) }

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

// inProcess starts an etcd in the process of the test, and a client of it.
func inProcess(t testing.TB, config server.Config) (*server.Server, *etcd.Store) {
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
	return s, open(t, etcd.Config{Endpoints: []string{s.Endpoint()}, Lease: time.Hour, Timeout: harness.Patience})
}

// refused fails the test unless a server does not start, for a reason.
func refused(t *testing.T, config server.Config, want error, words ...string) {
	t.Helper()
	s, err := server.Start(t.Context(), config)
	if err == nil {
		s.Close()
	}
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("start: %v, want %v", err, want)
	}
	for _, word := range words {
		if err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("start: %v: it does not speak of %s", err, word)
		}
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestOneProcessUsesADirectory(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	s, client := inProcess(t, config)
	refused(t, config, server.ErrInUse, config.DataDir)
	if err := server.Restore("/proc/self/exe", config); err == nil {
		t.Error("something was restored over an etcd that runs")
	}
	elsewhere := servertest.Config(t)
	elsewhere.Socket = strings.TrimPrefix(s.Endpoint(), "unix://")
	refused(t, elsewhere, server.ErrInUse, elsewhere.Socket)
	if _, err := client.Put(t.Context(), store.Write{Key: "a"}); err != nil { // the socket is still that of the first
		t.Error(err)
	}
	if got := []os.FileMode{mode(t, config.DataDir), mode(t, elsewhere.Socket)}; got[0] != 0o700 || got[1] != 0o600 {
		t.Errorf("modes of directory and socket: %o", got)
	}
}

// TestDatabaseOfAnotherProcess: an etcd that was not started by this package locks only its
// database, and would be waited for without an end.
func TestDatabaseOfAnotherProcess(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	database, err := os.Open(filepath.Join(config.DataDir, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	if err := unix.Flock(int(database.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	refused(t, config, server.ErrInUse)
}

func TestDataOfAnotherEtcd(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := config
	other.Cluster = "another"
	refused(t, other, server.ErrForeign, "another", config.Cluster)
	other = config
	other.Name = "second"
	refused(t, other, server.ErrForeign, "second", config.Name)
	marker := filepath.Join(config.DataDir, "phos.json")
	for _, text := range []string{"", "{", `{"cluster":"test","member":"alone"} {}`, `[]`, "\x00"} {
		if err := os.WriteFile(marker, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, config, server.ErrForeign, marker)
	}
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	refused(t, config, server.ErrForeign)
}

func TestPlacesThatAreRefused(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	if err := os.Mkdir(config.DataDir, 0o750); err != nil { // for the group
		t.Fatal(err)
	}
	refused(t, config, server.ErrPublic, config.DataDir)

	config = servertest.Config(t)
	public := servertest.Dir(t)
	if err := os.Chmod(public, 0o711); err != nil {
		t.Fatal(err)
	}
	config.Socket = filepath.Join(public, "socket")
	refused(t, config, server.ErrPublic, public)

	config.Socket = filepath.Join(servertest.Dir(t), "file")
	if err := os.WriteFile(config.Socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, config, nil, config.Socket)
	if text, err := os.ReadFile(config.Socket); err != nil || string(text) != "precious" {
		t.Errorf("the file at the path of the socket is %q, %v", text, err)
	}

	config.Socket = filepath.Join(servertest.Dir(t), strings.Repeat("s", 120))
	refused(t, config, nil, "bytes of at most")

	real, link := servertest.Dir(t), filepath.Join(servertest.Dir(t), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	config = servertest.Config(t)
	config.DataDir = link
	refused(t, config, nil)
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := servertest.Config(t)
	members := servertest.Members(t, servertest.NewAuthority(t), "a", "b", "c")[0]
	for name, change := range map[string]func(*server.Config){
		"no cluster":          func(c *server.Config) { c.Cluster = "" },
		"a name with a comma": func(c *server.Config) { c.Name = "a,b=http://x" },
		"a relative path":     func(c *server.Config) { c.DataDir = "data" },
		"a small quota":       func(c *server.Config) { c.QuotaBytes = 1 },
		"another member":      func(c *server.Config) { *c = members; c.Name = "d" },
		"no authority":        func(c *server.Config) { *c = members; m := *c.Members; m.TLS.CA = ""; c.Members = &m },
		"plain http": func(c *server.Config) {
			*c = members
			m := *c.Members
			m.ClientURL = "http://127.0.0.1:1"
			c.Members = &m
		},
		"no address to listen at": func(c *server.Config) {
			*c = members
			m := *c.Members
			m.ClientURL = "https://controller:1"
			c.Members = &m
		},
		"a certificate that is not there": func(c *server.Config) {
			*c = members
			m := *c.Members
			m.TLS.Cert = "/nowhere"
			c.Members = &m
		},
	} {
		config := good
		change(&config)
		s, err := server.Start(t.Context(), config)
		if err == nil {
			s.Close()
			t.Errorf("%s: it has started", name)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// TestKilledSocket: a killed etcd leaves its socket, which its successor takes over.
func TestKilledSocket(t *testing.T) {
	t.Parallel()
	process := servertest.Start(t, servertest.Config(t))
	process.Kill()
	if conn, err := net.Dial("unix", strings.TrimPrefix(process.Endpoint(), "unix://")); err == nil {
		conn.Close()
		t.Fatal("a process that was killed still listens")
	}
	process.Restart(t)
	s := open(t, etcd.Config{Endpoints: []string{process.Endpoint()}})
	if _, err := s.Put(t.Context(), store.Write{Key: "a"}); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsWatches: a server closes although a client watches, and the watch goes on at the
// next.
func TestCloseEndsWatches(t *testing.T) {
	t.Parallel()
	config := servertest.Config(t)
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	client := open(t, etcd.Config{Endpoints: []string{s.Endpoint()}})
	if _, err := client.Put(t.Context(), store.Write{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	seen, watched := make(chan string), make(chan error, 1)
	go func() {
		watched <- client.Watch(t.Context(), "", 0, func(changes []store.Change) error {
			for _, change := range changes {
				seen <- change.Key
			}
			return nil
		})
	}()
	<-seen
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, client = inProcess(t, config)
	if _, err := client.Put(t.Context(), store.Write{Key: "b"}); err != nil {
		t.Fatal(err)
	}
	if key := <-seen; key != "b" {
		t.Errorf("the watch has seen %s again", key)
	}
}
