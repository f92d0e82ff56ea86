package local

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
)

// ErrForeignPage means that a page of another site has made the browser send a request.
var ErrForeignPage = errors.New("the request comes from a foreign page")

// CheckPage looks at the Host and Origin of an HTTP request in clear. Host must be loopback's, or a
// name of the attacker's could resolve to it. Origin must be the page that was served there; it is
// empty if no page has made the request.
func CheckPage(host, origin string) error {
	if !isLoopback(host) {
		return fmt.Errorf("%w: it is for %q, and this is localhost", ErrForeignPage, words.Clip(host))
	}
	if origin != "" && origin != "http://"+host {
		return fmt.Errorf("%w: it is of %q, and this is http://%s", ErrForeignPage, words.Clip(origin), words.Clip(host))
	}
	return nil
}

// isLoopback reports whether a Host header names this machine: an address, or localhost.
func isLoopback(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]") // without a port
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.Unmap().IsLoopback() && address.Zone() == ""
}
