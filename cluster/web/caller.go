package web

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
)

// request is a request with its caller.
type request struct {
	*http.Request
	w http.ResponseWriter
	// connected is the context of the connection: on loopback, that of a user of this machine.
	connected context.Context
	// ctx is the context for the services: that of the login, or of the connection.
	ctx     context.Context
	session *session // nil: not logged in
}

// accept finds out which caller makes a request.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) *request {
	q := &request{Request: r, w: w, connected: r.Context(), ctx: r.Context()}
	cookie, err := r.Cookie(s.cookieName())
	if err != nil {
		return q
	}
	if found := s.sessions.find(cookie.Value); found != nil && found.connection == s.connection(q.connected) {
		q.session = found
		if found.token != "" {
			q.ctx = s.parts.Callers.Token(q.connected, found.token)
		}
	}
	return q
}

// connection names the user of this machine that has connected; empty: none is known.
func (s *Server) connection(ctx context.Context) string {
	if s.guard.secure {
		return ""
	}
	caller, err := s.parts.Callers.Of(ctx)
	if err != nil {
		return ""
	}
	return caller.String()
}

// errLogin is about a request that needs a login.
var errLogin = &api.Error{Text: "log in first: without a login the page only shows", Err: api.ErrUnknownCaller}

// mayChange returns an error unless the page of a login makes the request.
func (q *request) mayChange() error {
	if q.session == nil {
		return errLogin
	}
	if subtle.ConstantTimeCompare([]byte(q.Header.Get(secretHeader)), []byte(q.session.secret)) != 1 {
		return &api.Error{Text: "the request does not have the secret of the login: reload the page", Err: api.ErrNotPermitted}
	}
	return nil
}

// caller returns the caller.
func (s *Server) caller(q *request) (identity.Caller, error) { return s.parts.Callers.Of(q.ctx) }

// json answers requests with JSON.
func (s *Server) json(answer func(*request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, err := answer(s.accept(w, r))
		if err != nil {
			writeError(w, s.parts.Translate(err))
			return
		}
		write(w, http.StatusOK, reply)
	})
}

// write writes JSON.
func write(w http.ResponseWriter, code int, reply any) {
	text, err := json.Marshal(reply)
	if err != nil { // never: these are plain data
		code, text = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // the browser has gone
}

// fault is an error as the page gets it.
type fault struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
}

// faults says how errors are named, and which status of HTTP they have.
var faults = []struct {
	err  error
	kind string
	code int
}{
	{api.ErrUnknownCaller, "unknown caller", http.StatusUnauthorized},
	{api.ErrNotPermitted, "not permitted", http.StatusForbidden},
	{api.ErrNotFound, "not found", http.StatusNotFound},
	{api.ErrInvalid, "invalid", http.StatusBadRequest},
	{api.ErrRefused, "refused", http.StatusConflict},
	{api.ErrUnavailable, "unavailable", http.StatusServiceUnavailable},
	{api.ErrTooLarge, "too large", http.StatusRequestEntityTooLarge},
	{errBusy, "busy", http.StatusTooManyRequests},
}

// faultOf returns an error for the page, and its status.
func faultOf(err error) (fault, int) {
	for _, row := range faults {
		if errors.Is(err, row.err) {
			return fault{plain(err.Error()), row.kind}, row.code
		}
	}
	return fault{plain(err.Error()), "defect"}, http.StatusInternalServerError
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, err error) {
	f, code := faultOf(err)
	write(w, code, f)
}

// read reads the JSON of a request.
func (q *request) read(into any) error {
	decoder := json.NewDecoder(q.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &api.Error{Text: fmt.Sprintf("the request is larger than %d bytes", tooLarge.Limit), Err: api.ErrTooLarge}
	}
	if err != nil {
		return api.Invalid("the request is not the JSON that the page sends: " + err.Error())
	}
	return nil
}
