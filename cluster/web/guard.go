package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/internal/words"
)

// guard refuses requests that a browser makes for the page of another site, or by a name that does
// not belong to this machine.
type guard struct {
	secure bool
	names  map[string]bool
}

func newGuard(secure bool, names []string) guard {
	g := guard{secure: secure, names: map[string]bool{}}
	for _, name := range names {
		g.names[strings.ToLower(name)] = true
	}
	return g
}

// headers go with each answer. The page needs no script, style, picture or frame of others, and no
// inline script or style; Trusted Types refuse text as HTML.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
		"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), microphone=(), geolocation=(), clipboard-read=()",
}

// protect checks each request before a handler sees it.
func (g guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if err := g.check(r); err != nil {
			writeError(w, &api.Error{Text: err.Error(), Err: api.ErrNotPermitted})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

// errNeedsPage is about a request that changes something and does not come from the page.
var errNeedsPage = errors.New("requests that change something must come from the page itself")

// check returns an error for a request of a foreign page.
func (g guard) check(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if len(r.Header.Values("Origin")) > 1 {
		return fmt.Errorf("%w: it has two origins", local.ErrForeignPage)
	}
	if err := g.checkHost(r.Host, origin); err != nil {
		return err
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if changes && origin == "" {
		return errNeedsPage
	}
	return checkSite(r, changes)
}

// checkSite looks at what the browser says of the page that makes a request. A link on another site
// may open the page, but nothing of that site may ask for data.
func checkSite(r *http.Request, changes bool) error {
	site := r.Header.Get("Sec-Fetch-Site")
	opensPage := r.Header.Get("Sec-Fetch-Mode") == "navigate" && !changes && !strings.HasPrefix(r.URL.Path, "/api/")
	if site == "" || site == "same-origin" || opensPage || site == "none" && !changes {
		return nil
	}
	return fmt.Errorf("%w: the browser says it is %s", local.ErrForeignPage, words.Clip(site))
}

// checkHost looks at the name by which the browser has found this server, and at the page.
func (g guard) checkHost(host, origin string) error {
	if !g.secure {
		return local.CheckPage(host, origin)
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]") // without a port
	}
	if !g.names[strings.ToLower(name)] {
		return fmt.Errorf("%w: it is for %q, which is no name of this controller (controller.names in its configuration)",
			local.ErrForeignPage, words.Clip(host))
	}
	if origin != "" && !strings.EqualFold(origin, "https://"+host) {
		return fmt.Errorf("%w: it is of %q", local.ErrForeignPage, words.Clip(origin))
	}
	return nil
}
