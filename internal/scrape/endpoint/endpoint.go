package endpoint

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
)

// Network splits HOST:PORT or unix:/PATH into what net.Listen takes.
func Network(listen string) (network, address string) {
	if path, isUnix := strings.CutPrefix(listen, "unix:"); isUnix {
		return "unix", path
	}
	return "tcp", listen
}

// Check returns an error for text that is no place of this machine alone. Empty text is none, and
// no error. The numbers name users' programs: they are not for the network.
func Check(listen string) error {
	if listen == "" {
		return nil
	}
	network, address := Network(listen)
	if network == "unix" {
		if !filepath.IsAbs(address) {
			return errors.New("unix: needs an absolute path")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		if host == "" {
			host = "every address of this machine"
		}
		return errors.New(host + " is not a loopback address; say 127.0.0.1:PORT or unix:/PATH, and let a proxy serve the network")
	}
	return nil
}
