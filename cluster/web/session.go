package web

import (
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

// secretHeader carries the secret of a login. A page of another site can make a browser send the
// cookie, but it knows no secret.
const secretHeader = "X-Phos-Secret"

// session is a login. It ends with the controller, by a logout, or after lifetime.
type session struct {
	id, secret string
	// token is that of the user; empty: the user of the connection.
	token string
	// connection is the user of this machine whose browser has logged in. Ports of one machine
	// share cookies, so another user's server may get this one: it is of no use there.
	connection string
	ends       time.Time
}

// Bounds of logins.
const (
	lifetime    = 12 * time.Hour
	maxSessions = 1000
)

// sessions are the logins, the oldest first.
type sessions struct {
	mu   sync.Mutex
	open []*session
	now  func() time.Time
}

func newSessions() *sessions { return &sessions{now: time.Now} }

// add makes a login. If there are too many, the oldest ends.
func (s *sessions) add(token, connection string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		s.open = slices.Delete(s.open, 0, 1)
	}
	made := &session{id: rand.Text(), secret: rand.Text(), token: token, connection: connection, ends: s.now().Add(lifetime)}
	s.open = append(s.open, made)
	return made
}

// find returns the login with an id; nil: there is none.
func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.open {
		if each.id == id && s.now().Before(each.ends) {
			return each
		}
	}
	return nil
}

// remove ends a login.
func (s *sessions) remove(gone *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(each *session) bool { return each == gone })
}

// cookieName names the cookie of a login. The prefix makes browsers refuse one that was not set by
// this very host over TLS.
func (s *Server) cookieName() string {
	if s.guard.secure {
		return "__Host-phos"
	}
	return "phos"
}

// setCookie gives the browser the cookie of a login; an empty one takes it away.
func (s *Server) setCookie(q *request, id string) {
	cookie := &http.Cookie{
		Name: s.cookieName(), Value: id, Path: "/", HttpOnly: true, Secure: s.guard.secure, SameSite: http.SameSiteStrictMode,
	}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(q.w, cookie)
}

// me is the caller, for the page.
type me struct {
	Name    string `json:"name"`
	Account string `json:"account"`
	Role    string `json:"role"`
	// LoggedIn means that the page may change what the caller may change.
	LoggedIn bool   `json:"logged_in"`
	Secret   string `json:"secret,omitempty"`
	// Local means that the caller is known by its connection, and can log in without a token.
	Local bool `json:"local"`
}

// me answers which caller the page has.
func (s *Server) me(q *request) (any, error) {
	caller, err := s.caller(q)
	if err != nil {
		return nil, err
	}
	reply := me{
		Name: caller.Name, Account: caller.Account, Role: string(caller.Role), Local: s.connection(q.connected) != "",
	}
	if q.session != nil {
		reply.LoggedIn, reply.Secret = true, q.session.secret
	}
	return reply, nil
}

// login begins a login: by a token, or, without one, as the user of the connection.
func (s *Server) login(q *request) (any, error) {
	var asked struct {
		Token string `json:"token"`
	}
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	connection := s.connection(q.connected)
	q.ctx = q.connected
	if asked.Token != "" {
		q.ctx = s.parts.Callers.Token(q.connected, asked.Token)
	} else if connection == "" {
		return nil, &api.Error{Text: "a token is needed: an administrator makes one with phos user add", Err: api.ErrUnknownCaller}
	}
	if _, err := s.caller(q); err != nil {
		return nil, err
	}
	if q.session != nil {
		s.sessions.remove(q.session)
	}
	q.session = s.sessions.add(asked.Token, connection)
	s.setCookie(q, q.session.id)
	return s.me(q)
}

// logout ends the login.
func (s *Server) logout(q *request) (any, error) {
	if err := q.mayChange(); err != nil {
		return nil, err
	}
	s.sessions.remove(q.session)
	s.setCookie(q, "")
	return struct{}{}, nil
}
