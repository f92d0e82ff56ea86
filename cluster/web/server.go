package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
)

// Parts are what a page stands on.
type Parts struct {
	Launches api.LaunchesServer
	Cluster  api.ClusterServer
	Callers  Callers
	// Translate returns the error of package api that an error of the services is.
	Translate func(error) error
	Log       *slog.Logger
}

// Callers makes contexts by which the services know the caller, and says which one that is.
type Callers interface {
	// Local returns the context of the process at the other end of a connection in clear.
	Local(ctx context.Context, conn net.Conn) context.Context
	// Token returns the context of the user of a token.
	Token(ctx context.Context, token string) context.Context
	// Of returns the caller of a context.
	Of(ctx context.Context) (identity.Caller, error)
}

// Server serves the page.
type Server struct {
	parts    Parts
	guard    guard
	sessions *sessions
	streams  *streamLimit
	http     *http.Server
}

// Bounds of what a browser can ask for.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	maxBodyBytes   = 16 << 10
)

// NewServer returns a server. Over TLS it answers only for these names and addresses, without
// ports; with no settings of TLS it serves processes of this machine in clear.
func NewServer(parts Parts, settings *tls.Config, names []string) *Server {
	s := &Server{parts: parts, guard: newGuard(settings != nil, names), sessions: newSessions(), streams: newStreamLimit()}
	s.http = &http.Server{
		Handler: s.handler(), TLSConfig: settings, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(parts.Log.Handler(), slog.LevelDebug),
	}
	if settings == nil {
		s.http.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return parts.Callers.Local(ctx, conn)
		}
	}
	return s
}

// Serve serves a listener until Close.
func (s *Server) Serve(listener net.Listener) error {
	serve := s.http.Serve
	if s.guard.secure {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends all requests.
func (s *Server) Close() error { return s.http.Close() }

// route is a request of the page.
type route struct {
	pattern string
	answer  func(*request) (any, error)
}

// handler returns what answers all requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []route{
		{"GET /api/me", s.me},
		{"GET /api/cluster", s.cluster},
		{"GET /api/launches", s.list},
		{"GET /api/launches/{id}", s.launch},
		{"GET /api/launches/{id}/why", s.why},
		{"GET /api/launches/{id}/training", s.training},
		{"GET /api/nodes", s.nodes},
		{"POST /api/login", s.login},
		{"POST /api/logout", s.logout},
		{"POST /api/launches/{id}/{act}", s.actOnLaunch},
		{"POST /api/nodes/{name}/{act}", s.actOnNode},
	} {
		mux.Handle(r.pattern, s.json(r.answer))
	}
	for pattern, follow := range map[string]func(*request, *eventStream) error{
		"GET /api/follow":             s.followChanges,
		"GET /api/events":             s.followEvents,
		"GET /api/launches/{id}/logs": s.followLogs,
	} {
		mux.Handle(pattern, s.streamed(follow))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &api.Error{Text: "there is no " + r.Method + " of this address", Err: api.ErrNotFound})
	})
	mux.Handle("/", files())
	return s.guard.protect(mux)
}
