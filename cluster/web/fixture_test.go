package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/cluster/identity"
)

// people are callers by a name in the context. Which user connects next is set by the test.
type people struct{ connects atomic.Value }

type nameKey struct{}

func (p *people) Local(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, nameKey{}, "local "+p.connects.Load().(string))
}

func (p *people) Token(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, nameKey{}, token)
}

func (p *people) Of(ctx context.Context) (identity.Caller, error) {
	switch name, _ := ctx.Value(nameKey{}).(string); name {
	case "local ada", "local eve":
		account := strings.TrimPrefix(name, "local ")
		return identity.Caller{Kind: identity.Local, Name: account, Account: account, Role: identity.RoleUser}, nil
	case "token of grace":
		return identity.Caller{Kind: identity.User, Name: "g", Account: "grace", Role: identity.RoleAdmin}, nil
	}
	return identity.Caller{}, api.ErrUnknownCaller
}

// site is a made-up cluster with its page.
type site struct {
	*testing.T
	cluster *apitest.Cluster
	people  *people
	server  *Server
	address string
}

func newSite(t *testing.T) *site {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, cluster: apitest.New(t), people: &people{}, address: listener.Addr().String()}
	s.people.connects.Store("ada")
	launches, cluster := s.cluster.Services()
	s.server = NewServer(Parts{
		Launches: launches, Cluster: cluster, Callers: s.people, Log: slog.New(slog.DiscardHandler),
		Translate: func(err error) error { return api.FromStatus(api.ToStatus(err)) },
	}, nil, nil)
	go func() { _ = s.server.Serve(listener) }() // it returns when the server is closed
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// answer is what the server has answered.
type answer struct {
	code   int
	body   string
	header http.Header
}

// ask makes a request on a connection of its own; headers are NAME: VALUE.
func (s *site) ask(method, path, body string, headers ...string) answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Close = true
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header.Add(name, value)
	}
	reply, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{reply.StatusCode, string(text), reply.Header}
}

// get reads the JSON of an address.
func (s *site) get(path string, into any) {
	s.Helper()
	got := s.ask("GET", path, "")
	if got.code != http.StatusOK {
		s.Fatalf("%s: %d %s", path, got.code, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), into); err != nil {
		s.Fatal(err)
	}
}

// own is the Origin of the page itself.
func (s *site) own() string { return "Origin: http://" + s.address }

// logIn logs in and returns the headers that the page then sends.
func (s *site) logIn(token string) []string {
	s.Helper()
	got := s.ask("POST", "/api/login", fmt.Sprintf(`{"token":%q}`, token), s.own())
	var said me
	if err := json.Unmarshal([]byte(got.body), &said); err != nil || got.code != http.StatusOK || said.Secret == "" {
		s.Fatalf("login: %d %s", got.code, got.body)
	}
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	return []string{s.own(), "Cookie: " + cookie, secretHeader + ": " + said.Secret}
}

// received is an event of a stream.
type received struct{ kind, id, data string }

// stream opens a stream, and returns what reads its next event.
func (s *site) stream(path string, headers ...string) (next func() received, end func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		request.Header.Set(name, value)
	}
	reply, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.Fatal(err)
	}
	end = func() { cancel(); _ = reply.Body.Close() }
	s.Cleanup(end)
	lines := bufio.NewReader(reply.Body)
	return func() (got received) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				s.Fatalf("the stream of %s has ended: %v", path, err)
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch {
			case name == "event":
				got.kind = value
			case name == "id":
				got.id = value
			case name == "data":
				got.data = value
			case got.kind != "beat":
				return got
			}
		}
	}, end
}
