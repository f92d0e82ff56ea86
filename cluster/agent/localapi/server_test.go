package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// node has one launch, l-1, of one user.
type node struct {
	*Generations
	*Trainings
	uid uint32

	mu      sync.Mutex
	waiting int
	reply   *api.MembersReply // nil: no controller leads
}

// Await counts the requests that wait.
func (n *node) Await(ctx context.Context, launch string, above uint32) {
	n.count(+1)
	defer n.count(-1)
	n.Generations.Await(ctx, launch, above)
}

func (n *node) count(by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting += by
}

// waits returns how many requests wait.
func (n *node) waits() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting
}

func (n *node) HasProcesses(launch string, uid uint32) bool { return launch == "l-1" && uid == n.uid }

func (n *node) Members(context.Context, string) (*api.MembersReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reply == nil {
		return nil, errors.New("no controller leads")
	}
	return n.reply, nil
}

// become sets what the leader answers, and tells it to those that wait.
func (n *node) become(reply *api.MembersReply) {
	n.mu.Lock()
	n.reply = reply
	n.mu.Unlock()
	n.Note("l-1", reply.GetGeneration())
}

// lab is a served socket, and clients of it.
type lab struct {
	*testing.T
	node *node
	path string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t, &node{Generations: NewGenerations(), Trainings: NewTrainings(), uid: uint32(unix.Geteuid())}, filepath.Join(t.TempDir(), "run", "agent.sock")}
	for _, dir := range []string{filepath.Dir(filepath.Dir(l.path)), t.TempDir() + "/.."} { // other users come, too
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := Listen(l.path, l.node, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(ctx) }()
	t.Cleanup(func() { stop(); <-served })
	return l
}

// get sends a request, as another user unless uid is -1.
func (l *lab) get(path string, uid int) (status int, body string) {
	return l.send(http.MethodGet, path, "", uid)
}

// send sends a request with a body.
func (l *lab) send(method, path, content string, uid int) (status int, body string) {
	request, err := http.NewRequestWithContext(l.Context(), method, "http://agent"+path, strings.NewReader(content))
	if err != nil {
		l.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return l.dial(uid) },
	}}
	reply, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		l.Error(err)
	}
	return reply.StatusCode, strings.TrimSpace(string(text))
}

// dial connects. The kernel names the user of the thread that does.
func (l *lab) dial(uid int) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if uid >= 0 {
			runtime.LockOSThread() // and the thread ends with the goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				err = errno
				return
			}
		}
		conn, err = net.Dial("unix", l.path)
	}()
	<-done
	return conn, err
}

// TestMembers: a process is told of its launch's members, at once or when they have changed.
func TestMembers(t *testing.T) {
	l := newLab(t)
	member := &api.Member{Job: "main", Replica: 2, Rank: 1, Attempt: 3, Node: "b", Address: "10.0.0.2", Port: 20000}
	l.node.become(&api.MembersReply{Generation: 4, Members: []*api.Member{member}})
	want := Members{"l-1", 4, []Member{{"main", 2, 1, 3, "b", "10.0.0.2", 20000}}}
	for _, path := range []string{"/v1/launches/l-1", "/v1/launches/l-1?after=3", "/v1/launches/l-1?after=4&wait=0s"} {
		status, body := l.get(path, -1)
		var got Members
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d, %s; %v", path, status, body, err)
		}
	}
	answered := make(chan string)
	go func() {
		_, body := l.get("/v1/launches/l-1?after=4&wait=5m", -1)
		answered <- body
	}()
	harness.Eventually(t, "the request waits", func() bool { return l.node.waits() == 1 })
	select {
	case body := <-answered:
		t.Fatalf("it is answered already: %s", body)
	default:
	}
	l.node.become(&api.MembersReply{Generation: 5})
	if body := <-answered; body != `{"launch":"l-1","generation":5,"members":[]}` {
		t.Errorf("after the change: %s", body)
	}
}

// TestRefused: what is wrong is said, and nothing is said of launches of others.
func TestRefused(t *testing.T) {
	l := newLab(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/v1/launches/l-1":                  {http.StatusServiceUnavailable, "no controller leads"},
		"/v1/launches/l-1?after=x":          {http.StatusBadRequest, "after is \\\"x\\\": want a generation"},
		"/v1/launches/l-1?after=1&wait=1h":  {http.StatusBadRequest, "at most 5m0s"},
		"/v1/launches/l-1?after=1&wait=-1s": {http.StatusBadRequest, "want a time such as 30s"},
		"/v1/launches":                      {http.StatusNotFound, ""},
	} {
		if status, body := l.get(path, -1); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%.60s: %d, %.200s; want %d, %s", path, status, body, want.status, want.text)
		}
	}
}

// TestOtherUsers: a user learns nothing of launches of others, and root learns of all.
func TestOtherUsers(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	l := newLab(t)
	l.node.uid = 1000
	l.node.become(&api.MembersReply{Generation: 1})
	for uid, want := range map[int]int{1000: http.StatusOK, 0: http.StatusOK, 1001: http.StatusNotFound} {
		if status, body := l.get("/v1/launches/l-1", uid); status != want {
			t.Errorf("user %d: %d, %s; want %d", uid, status, body, want)
		}
	}
}

// TestManyConnections: a user with too many connections holds up no other one.
func TestManyConnections(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	l := newLab(t)
	l.node.become(&api.MembersReply{Generation: 1})
	var conns []net.Conn
	for range maxConnections + 1 {
		conn, err := l.dial(1000)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		defer conn.Close()
	}
	if _, err := conns[maxConnections].Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("the last one: %v; want it closed by the server", err)
	}
	if status, body := l.get("/v1/launches/l-1", -1); status != http.StatusOK {
		t.Errorf("another user: %d, %s", status, body)
	}
}
