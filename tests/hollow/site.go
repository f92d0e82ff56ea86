package hollow

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/store/etcd/peers"
	"github.com/phos-gpu/phos/cluster/store/etcd/server"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

// Site is etcd and two controllers, each in a process of its own, on loopback addresses. TestMain
// of the test must call servertest.Main.
type Site struct {
	t           testing.TB
	Etcd        *servertest.Process
	Controllers []*Controller
}

// Controller is a controller's process.
type Controller struct {
	// Socket is for people on this machine, Address for nodes.
	Socket, Address string
	dir             string
	command         *exec.Cmd
}

// NewSite starts etcd and a number of controllers, of which the first leads. Settings are added to
// the configuration of the controllers.
func NewSite(t testing.TB, controllers int, settings string) *Site {
	t.Helper()
	harness.Need(t, "build", harness.Built())
	harness.Need(t, "root", harness.Root())
	authority := servertest.NewAuthority(t)
	config := servertest.Members(t, authority, "etcd")[0]
	s := &Site{t: t, Etcd: servertest.Start(t, config)}
	certificates := folder(t, authority.Issue(t, "controller"))
	for i := range controllers {
		c := &Controller{dir: servertest.Dir(t)}
		c.Socket = filepath.Join(c.dir, "controller.sock")
		c.configure(t, strconv.Itoa(i), s.Etcd.Endpoint(), certificates, settings)
		c.start(t)
		s.Controllers = append(s.Controllers, c)
		if i == 0 {
			s.awaitLeader()
		}
	}
	return s
}

// folder puts certificates where controllers look for them.
func folder(t testing.TB, files server.TLS) string {
	t.Helper()
	certificates := servertest.Dir(t)
	for from, to := range map[string]string{files.CA: peers.CAFile, files.Cert: peers.CertFile, files.Key: peers.KeyFile} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(certificates, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return certificates
}

// awaitLeader waits until a controller leads.
func (s *Site) awaitLeader() {
	s.t.Helper()
	if _, err := s.Client().Cluster.Status(s.t.Context(), &api.StatusRequest{}); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the configuration of a controller.
func (c *Controller) configure(t testing.TB, name, endpoint, certificates, settings string) {
	t.Helper()
	text := fmt.Sprintf(`[controller]
name = %q
state_dir = %q
socket = %q
listen = "127.0.0.1:0"
[store]
endpoints = [%q]
certificates = %q
[web]
listen = ""
[metrics]
listen = %q
[clusterfudge]
listen = ""
`, "controller-"+name, filepath.Join(c.dir, "state"), c.Socket, endpoint, certificates, "unix:"+filepath.Join(c.dir, "metrics.sock"))
	if err := os.WriteFile(c.config(), []byte(text+settings), 0o600); err != nil {
		t.Fatal(err)
	}
}

// config is the path of the configuration.
func (c *Controller) config() string { return filepath.Join(c.dir, "controller.toml") }

// start starts the process, and waits until it serves.
func (c *Controller) start(t testing.TB) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ready, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	c.command = exec.Command(filepath.Join(harness.Bin(), "phos-controller"), "--config="+c.config(), "--ready-fd=3")
	c.command.Stdout, c.command.Stderr, c.command.ExtraFiles = log, log, []*os.File{told}
	err = c.command.Start()
	told.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.Kill(); t.Failed() {
			t.Logf("%s says:\n%s", c.dir, harness.Tail(c.log()))
		}
	})
	line, err := harness.AwaitReady(ready)
	said := strings.Split(strings.TrimSpace(line), "\t")
	if err != nil || len(said) < 3 {
		t.Fatalf("controller: %q, %v\n%s", line, err, c.log())
	}
	c.Address = said[2]
}

// log returns what the controller has written.
func (c *Controller) log() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return string(text)
}

// PID returns the pid of the controller's process.
func (c *Controller) PID() int { return c.command.Process.Pid }

// Kill ends the process without a warning.
func (c *Controller) Kill() {
	_ = c.command.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = c.command.Wait()
}

// Client returns a client of all controllers, as root of this machine.
func (s *Site) Client() *api.Client {
	var sockets []string
	for _, c := range s.Controllers {
		sockets = append(sockets, c.Socket)
	}
	client := api.Connect(api.Endpoints{Addresses: sockets})
	s.t.Cleanup(client.Close)
	return client
}

// Leader returns the controller that leads.
func (s *Site) Leader(client *api.Client) *Controller {
	s.t.Helper()
	reply, err := client.Cluster.Status(s.t.Context(), &api.StatusRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range s.Controllers {
		if c.Address == reply.GetLeader() {
			return c
		}
	}
	s.t.Fatalf("the controller at %s leads", reply.GetLeader())
	return nil
}
